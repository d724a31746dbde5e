"""Tests of `mngr tutorial init` and `install-command`: they work in any project and overwrite nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import MngrProgram

PYTEST = f"{sys.executable} -m pytest -p no:cacheprovider"


def test_init_writes_a_tutorial_and_a_test_that_passes(mngr: MngrProgram) -> None:
    mngr.env["MNGR__PROJECT__PYTEST"] = PYTEST
    result = mngr("tutorial", "init", "--program", "git", "--format", "json").parse_json()
    assert result["written"] == ["tutorial.sh", "tests/e2e/test_first_steps.py", ".mngr/settings.toml"]
    assert os.access(mngr.repo / "tutorial.sh", os.X_OK)
    assert "1 of 1 blocks are cited" in mngr("tutorial", "check").out
    process = subprocess.run(["sh", "-c", f"{PYTEST} -q"], cwd=mngr.repo, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout
    assert mngr("tutorial", "init").out.startswith("all files exist already")


def test_init_keeps_existing_files(mngr: MngrProgram) -> None:
    (mngr.repo / "tutorial.sh").write_text("# mine\necho mine\n")
    (mngr.repo / "tests" / "e2e").mkdir(parents=True)
    (mngr.repo / "tests" / "e2e" / "test_mine.py").write_text("")
    result = mngr("tutorial", "init", "--program", "git", "--format", "json").parse_json()
    assert result["written"] == [".mngr/settings.toml"]
    assert (mngr.repo / "tutorial.sh").read_text() == "# mine\necho mine\n"
    assert [path.name for path in (mngr.repo / "tests" / "e2e").glob("*.py")] == ["test_mine.py"]


def test_init_runs_no_code_of_the_project(mngr: MngrProgram) -> None:
    (mngr.repo / "conftest.py").write_text("open('ran', 'w')\n")
    mngr("tutorial", "init", "--program", "git")
    assert not (mngr.repo / "ran").exists()


def test_init_without_a_program_fails_and_writes_nothing(mngr: MngrProgram) -> None:
    assert "mngr does not know which program" in mngr("tutorial", "init", code=1).err
    assert not (mngr.repo / "tutorial.sh").exists()


def test_install_command_writes_slash_commands_for_the_agents(mngr: MngrProgram, tmp_path: Path) -> None:
    mngr.env["CODEX_HOME"] = str(tmp_path / "codex")
    written = mngr("tutorial", "install-command", "--format", "json").parse_json()["paths"]
    name = "sync-tutorial-to-e2e-tests.md"
    assert written == [str(mngr.repo / ".claude/commands" / name), str(tmp_path / "codex/prompts" / name)]
    for path in written:
        text = Path(path).read_text()
        assert (
            text.startswith("---\ndescription: ") and "`mngr tutorial check`" in text and "write_tutorial_block" in text
        )
    assert "cannot install the slash command for 'emacs'" in mngr("tutorial", "install-command", "emacs", code=2).err
