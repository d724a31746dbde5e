"""Tests that `mngr init` tries the settings that it writes, and corrects them when they do not work."""

from __future__ import annotations

import subprocess
import sysconfig
import tomllib
from pathlib import Path

import pytest

import mngr as mngr_package
from tests.conftest import MngrProgram, run_git
from tests.setup.init.test_init import write_files

SITE = sysconfig.get_path("purelib")
SOURCE = Path(mngr_package.__file__).parents[1]  # pytest loads mngr's plugin with the packages of SITE
# Creates an environment with the packages of this one. Installing packages would need a package index.
SETUP = f"""
setup:
\tpython3 -m venv --without-pip .venv
\tprintf '%s\\n' {SITE} {SOURCE} >"$$(echo .venv/lib/*/site-packages)/here.pth"
"""
PASSING = "def test_a(): pass\ndef test_b(): pass\n"


def commit(mngr: MngrProgram, files: dict[str, str]) -> None:
    """Commit these files."""
    write_files(mngr.repo, files)
    run_git(mngr.repo, "add", "-A")
    run_git(mngr.repo, "commit", "-q", "-m", "files")


def read_settings(mngr: MngrProgram) -> dict[str, str]:
    """Return the settings of the project."""
    return dict(tomllib.loads((mngr.repo / ".mngr/settings.toml").read_text())["project"])


def test_init_reports_how_many_tests_it_collected_in_a_scratch_copy(mngr: MngrProgram) -> None:
    commit(mngr, {"Makefile": SETUP, "tests/test_a.py": PASSING})
    result = mngr("init")
    assert "2 tests collected in " in result.out
    assert "trying in a scratch copy: make setup" in result.err
    assert run_git(mngr.repo, "status", "--porcelain", "--untracked-files=all") == "?? .mngr/settings.toml"
    assert mngr.list_agents() == []
    assert "baseline: 2 pass" in mngr("tmr", "run", "--dry-run").err


def test_unittest_suites_run_through_pytest(mngr: MngrProgram) -> None:
    suite = "import unittest\nclass TestA(unittest.TestCase):\n    def test_a(self): pass\n"
    commit(mngr, {"Makefile": SETUP, "tests/testing.py": suite})
    assert "1 test collected in " in mngr("init").out


def test_no_try_writes_the_settings_only(mngr: MngrProgram) -> None:
    commit(mngr, {"Makefile": "setup:\n\ttouch $(HOME)/tried .venv\n", "tests/test_a.py": PASSING})
    mngr("init", "--no-try")
    assert read_settings(mngr)["setup"] == "make setup"
    assert not (Path(mngr.env["HOME"]) / "tried").exists()


@pytest.mark.agents
def test_a_file_with_an_import_error_is_reported_and_the_others_count(mngr: MngrProgram) -> None:
    commit(mngr, {"Makefile": SETUP, "tests/test_a.py": PASSING, "tests/test_bad.py": "import no_such_module\n"})
    result = mngr("init")
    assert "2 tests collected in " in result.out and "; 1 file cannot be collected" in result.out
    assert "tests/test_bad.py: ModuleNotFoundError: No module named 'no_such_module'" in result.out
    assert "baseline: 2 pass, 1 fail" in mngr("tmr", "run", "--dry-run").err


def test_a_project_without_tests_is_told_what_to_do(mngr: MngrProgram) -> None:
    commit(mngr, {"setup.py": ""})
    assert "mngr found no Python tests" in mngr("init").out


@pytest.mark.parametrize(
    ("steps", "reason"),
    [([], "is not a git repository. Run: cd "), (["init"], "the repository has no commit. Run: git add")],
)
def test_without_a_commit_init_says_what_to_run(
    mngr: MngrProgram, tmp_path: Path, steps: list[str], reason: str
) -> None:
    plain = tmp_path / "plain"
    write_files(plain, {"Makefile": SETUP, "tests/test_a.py": PASSING})
    for step in steps:
        run_git(plain, step, "-q")
    result = mngr("init", cwd=plain)
    assert reason in result.out
    assert result.out.rstrip().endswith("git commit -m start && mngr init --force")


@pytest.mark.agents
def test_init_leaves_out_a_tool_that_fails(mngr: MngrProgram, tmp_path: Path) -> None:
    """Both the Makefile and uv fail, and pip cannot install a package that does not exist."""
    tools = tmp_path / "tools"
    write_files(tools, {"uv": "#!/bin/sh\nexit 1\n", "python3": "#!/bin/sh\necho no environment here\nexit 1\n"})
    for name in ("uv", "python3"):
        (tools / name).chmod(0o755)
    commit(mngr, {"Makefile": "setup:\n\texit 3\n", "uv.lock": "", "pyproject.toml": "", "tests/test_a.py": PASSING})
    result = mngr("init", env={"PATH": f"{tools}:{mngr.env['PATH']}"}, code=1)
    assert "that failed; trying without make" in result.err
    assert "that failed; trying without uv" in result.err
    assert "no environment here" in result.err and "Hint:" in result.err
    assert read_settings(mngr)["setup"] == "python3 -m venv .venv && .venv/bin/pip install pytest"


@pytest.mark.parametrize(
    ("files", "message", "hint"),
    [
        (
            {"tests/test_a.py": "import no_such_module\n"},
            "No module named 'no_such_module'",
            "if a package is missing, let mngr write the settings again (this overwrites the existing settings): mngr init --force",
        ),
        ({"tests/test_a.py": ""}, "pytest found no tests", "git commit -m 'Add a test' && mngr tmr run --dry-run"),
        ({"conftest.py": "1 / 0\n", "tests/test_a.py": PASSING}, "ZeroDivisionError", "mngr create copy -- .venv"),
    ],
)
def test_a_run_without_collectable_tests_shows_the_runners_output_and_a_next_command(
    mngr: MngrProgram, files: dict[str, str], message: str, hint: str
) -> None:
    commit(mngr, {"Makefile": SETUP, **files})
    mngr("init", "--no-try")
    result = mngr("tmr", "run", "--dry-run", code=1)
    assert message in result.err
    assert hint in result.err


@pytest.mark.agents
def test_the_command_in_the_hint_for_a_project_without_tests_makes_the_next_run_succeed(mngr: MngrProgram) -> None:
    commit(mngr, {"Makefile": SETUP, "tests/test_a.py": ""})
    mngr("init", "--no-try")
    hint = mngr("tmr", "run", "--dry-run", code=1).err.partition("for example: ")[2].partition(" && mngr tmr run")[0]
    subprocess.run(["sh", "-ec", hint], cwd=mngr.repo, env=mngr.env, check=True)
    assert "baseline: 1 pass" in mngr("tmr", "run", "--dry-run").err


@pytest.mark.agents
def test_a_run_on_a_folder_without_tests_names_the_folder_and_a_command_for_the_whole_project(
    mngr: MngrProgram,
) -> None:
    commit(mngr, {"Makefile": SETUP, "tests/test_a.py": PASSING, "docs/index.md": ""})
    mngr("init", "--no-try")
    error = mngr("tmr", "run", "--dry-run", "docs", code=1).err
    assert "pytest found no tests in docs" in error
    assert "look for tests in the whole project: mngr tmr run --dry-run" in error
