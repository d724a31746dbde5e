"""`mngr demo`: what is in its way is said before anything is made, and an installed mngr has the sample."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

from tests.conftest import MngrProgram
from tests.support.paths import ROOT


def test_what_is_there_is_left_alone(mngr: MngrProgram) -> None:
    (mngr.repo / "mngr-demo").mkdir()
    (mngr.repo / "mngr-demo" / "mine.txt").write_text("mine\n")
    assert f"{mngr.repo}/mngr-demo is not empty\nHint: name another place with --dir" in mngr("demo", code=1).err
    assert f"{mngr.repo}/README.md is no directory" in mngr("demo", "--dir", "README.md", code=1).err
    assert [path.name for path in (mngr.repo / "mngr-demo").iterdir()] == ["mine.txt"]
    assert not mngr.home.exists()


def test_without_pytest_nothing_is_begun(mngr: MngrProgram, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import sys\nsys.modules['pytest'] = None\n")
    ran = mngr("demo", code=1, env={"PYTHONPATH": str(site)})
    assert "the sample is tested with pytest, and " in ran.err
    assert ran.err.endswith(" -m pip install pytest\n")
    assert not (mngr.repo / "mngr-demo").exists()


def test_a_test_that_there_is_not(mngr: MngrProgram) -> None:
    place = mngr.repo / "there" / "demo"
    ran = mngr("demo", "tests/test_none.py", "--dir", "there/demo", code=1)
    assert "tests/test_none.py" in ran.err.partition("Error: ")[2]
    assert f"can go: (cd {place} && mngr tmr clean) && rm -r {place}\n" in ran.err
    assert mngr.list_agents() == []


def test_a_wheel_has_the_sample() -> None:
    argv = ["git", "ls-files", "-z", "src/mngr/testkit/sample"]
    listed = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    sample = {name.removeprefix("src/") for name in listed.split("\0") if name}
    assert {"mngr/testkit/sample/.mngr/settings.toml", "mngr/testkit/sample/bin/pantry"} <= sample
    assert sample <= {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
