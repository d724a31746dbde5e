"""Tests of `mngr e2e audit`: which tests it runs, its cache, and that it leaves nothing behind."""

from __future__ import annotations

import sys

import pytest

from tests.conftest import MngrProgram, run_git

pytestmark = pytest.mark.agents

NOTE = "#!/bin/sh\necho 'usage: note [--loud]'\n"
CALL = """\
    out = subprocess.run(["note", {words}], env={{"PATH": f"{{BIN}}:/usr/bin:/bin"}}, capture_output=True, text=True).stdout
"""
HEAD = """\
import subprocess
from pathlib import Path

BIN = Path(__file__).parents[1] / "bin"


"""
GOOD = "def test_good():\n" + CALL.format(words='"x"') + "    assert out == 'usage: note [--loud]\\n'\n"
BAD = "def test_bad():\n" + CALL.format(words='"--loud"') + "    assert out is not None\n"


@pytest.fixture
def project(mngr: MngrProgram) -> MngrProgram:
    """A program of one line, and two tests of it."""
    mngr.env["MNGR__PROJECT__PYTEST"] = f"{sys.executable} -m pytest -q"
    mngr.env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    for name, text in {"bin/note": NOTE, "tests/test_note.py": f"{HEAD}{GOOD}\n\n{BAD}"}.items():
        path = mngr.repo / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    run_git(mngr.repo, "add", "-A")
    run_git(mngr.repo, "commit", "-qm", "a note")
    mngr("trust", "--yes")
    return mngr


AUDIT = ("e2e", "audit", "--modes", "nop,drop", "--format", "json")


def test_audit_uses_cached_results_until_the_program_changes(project: MngrProgram) -> None:
    report = project(*AUDIT, code=4).parse_json()
    rows = [(row["test"], row["mode"], row["line"], row["option"]) for row in report["findings"]]
    test, line = "tests/test_note.py::test_bad", f"{HEAD}{GOOD}\n\n".count("\n") + 2
    assert rows == [(test, "nop", line, ""), (test, "drop", line, "--loud")]
    assert report["counts"] == {
        "tests": 2, "vacuous": 1, "failing": 0, "unclear": 0, "left": 0, "no_command": 0, "unguarded_commands": 0, "unguarded_options": 1, "cached": 0,
    }  # fmt: skip
    assert project(*AUDIT, code=4).parse_json()["counts"] == {**report["counts"], "cached": 2}
    assert ".mngr" not in run_git(project.repo, "status", "--short", "--ignored", "-uall")
    (project.repo / "bin/note").write_text(NOTE.replace("[--loud]", "[--low]"))
    changed = project(*AUDIT, code=4).parse_json()["counts"]
    assert (changed["cached"], changed["failing"]) == (0, 1)


def test_audit_of_changed_tests_and_a_sample(project: MngrProgram) -> None:
    quick = [*AUDIT, "--modes", "nop"]
    unchanged = project(*quick, "--changed-since", "HEAD").parse_json()
    assert unchanged["tests"] == []
    path = project.repo / "tests/test_note.py"
    path.write_text(path.read_text().replace("is not None", "!= ''"))
    repaired = project(*quick, "--changed-since", "HEAD").parse_json()
    assert [(row["test"], row["outcome"]) for row in repaired["tests"]] == [("tests/test_note.py::test_bad", "guarded")]
    with_sample = project(*quick, "--changed-since", "HEAD", "--sample", "5").parse_json()
    assert [row["test"] for row in with_sample["tests"]] == [
        "tests/test_note.py::test_bad",
        "tests/test_note.py::test_good",
    ]


def test_audit_rejects_unknown_modes_tests_and_commits(project: MngrProgram) -> None:
    project("e2e", "audit", "--modes", "nap", code=2)
    assert "tests/none.py" in project(*AUDIT, "tests/none.py", code=1).err
    assert "nowhere" in project(*AUDIT, "--changed-since", "nowhere", code=1).err
    (project.repo / "bin/other").touch()  # With one program only, mngr would choose it.
    assert "which program" in project("e2e", "audit", code=2).err
