"""Tests of `mngr demo`: it checks its requirements before it creates anything, and the wheel contains the sample."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

from tests.conftest import MngrProgram
from tests.support.paths import ROOT


def test_demo_leaves_an_existing_directory_alone(mngr: MngrProgram) -> None:
    (mngr.repo / "mngr-demo").mkdir()
    (mngr.repo / "mngr-demo" / "mine.txt").write_text("mine\n")
    assert (
        f"{mngr.repo}/mngr-demo is not empty\nHint: choose another directory: mngr demo --dir DIR"
        in mngr("demo", code=1).err
    )
    assert f"{mngr.repo}/README.md is not a directory" in mngr("demo", "--dir", "README.md", code=1).err
    assert [path.name for path in (mngr.repo / "mngr-demo").iterdir()] == ["mine.txt"]
    assert not mngr.home.exists()


def test_demo_without_pytest_creates_nothing(mngr: MngrProgram, tmp_path: Path) -> None:
    site_dir = tmp_path / "site"
    site_dir.mkdir()
    (site_dir / "sitecustomize.py").write_text("import sys\nsys.modules['pytest'] = None\n")
    result = mngr("demo", code=1, env={"PYTHONPATH": str(site_dir)})
    assert "the sample project needs pytest, which " in result.err
    assert result.err.endswith(" -m pip install pytest\n")
    assert not (mngr.repo / "mngr-demo").exists()


def test_demo_with_an_unknown_test_fails_and_says_how_to_clean_up(mngr: MngrProgram) -> None:
    project_dir = mngr.repo / "there" / "demo"
    result = mngr("demo", "tests/test_none.py", "--dir", "there/demo", code=1)
    assert "tests/test_none.py" in result.err.partition("Error: ")[2]
    assert (
        f"remove what the demo created so far: (cd {project_dir} && mngr tmr clean) && rm -r {project_dir}\n"
        in result.err
    )
    assert mngr.list_agents() == []


def test_the_wheel_contains_the_sample() -> None:
    argv = ["git", "ls-files", "-z", "src/mngr/testkit/sample"]
    listed = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    sample = {name.removeprefix("src/") for name in listed.split("\0") if name}
    assert {"mngr/testkit/sample/.mngr/settings.toml", "mngr/testkit/sample/bin/pantry"} <= sample
    assert sample <= {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
