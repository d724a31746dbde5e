"""`mngr tutorial init` and `install-command`: a beginning in any project, and nothing overwritten."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import MngrProgram

PYTEST = f"{sys.executable} -m pytest -p no:cacheprovider"


def test_a_beginning_that_runs(mngr: MngrProgram) -> None:
    mngr.env["MNGR__PROJECT__PYTEST"] = PYTEST
    begun = mngr("tutorial", "init", "--program", "git", "--format", "json").parse_json()
    assert begun["written"] == ["tutorial.sh", "tests/e2e/test_first_steps.py", ".mngr/settings.toml"]
    assert begun["missing"] is None
    assert os.access(mngr.repo / "tutorial.sh", os.X_OK)
    assert "1 of 1 blocks are cited" in mngr("tutorial", "check").out
    done = subprocess.run(["sh", "-c", f"{PYTEST} -q"], cwd=mngr.repo, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert mngr("tutorial", "init").out.startswith("everything is there already")


def test_what_is_there_stays(mngr: MngrProgram) -> None:
    (mngr.repo / "tutorial.sh").write_text("# mine\necho mine\n")
    (mngr.repo / "tests" / "e2e").mkdir(parents=True)
    (mngr.repo / "tests" / "e2e" / "test_mine.py").write_text("")
    begun = mngr("tutorial", "init", "--program", "git", "--format", "json").parse_json()
    assert begun["written"] == [".mngr/settings.toml"]
    assert (mngr.repo / "tutorial.sh").read_text() == "# mine\necho mine\n"
    assert [path.name for path in (mngr.repo / "tests" / "e2e").glob("*.py")] == ["test_mine.py"]


def test_a_pytest_that_does_not_know_the_fixture(mngr: MngrProgram, tmp_path: Path) -> None:
    other = tmp_path / "pytest"
    other.write_text("#!/bin/sh\necho 'tmp_path -- somewhere'\n")
    other.chmod(0o755)
    ran = mngr("tutorial", "init", "--program", "git", env={"MNGR__PROJECT__PYTEST": str(other)})
    assert "does not know the fixture e2e; install mngr" in ran.err
    ran = mngr("tutorial", "init", env={"MNGR__PROJECT__PYTEST": "no-such-pytest"})
    assert "no-such-pytest cannot be run" in ran.err


def test_no_program(mngr: MngrProgram) -> None:
    assert "nothing says which program" in mngr("tutorial", "init", code=1).err
    assert not (mngr.repo / "tutorial.sh").exists()


def test_slash_commands(mngr: MngrProgram, tmp_path: Path) -> None:
    mngr.env["CODEX_HOME"] = str(tmp_path / "codex")
    written = mngr("tutorial", "install-command", "--format", "json").parse_json()["paths"]
    name = "sync-tutorial-to-e2e-tests.md"
    assert written == [str(mngr.repo / ".claude/commands" / name), str(tmp_path / "codex/prompts" / name)]
    for path in written:
        text = Path(path).read_text()
        assert (
            text.startswith("---\ndescription: ") and "`mngr tutorial check`" in text and "write_tutorial_block" in text
        )
    assert "has no slash commands" in mngr("tutorial", "install-command", "emacs", code=2).err
