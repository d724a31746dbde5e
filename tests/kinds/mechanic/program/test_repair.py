"""The job `repair`: a test is really run and repaired or not, and commits and a result remain."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mngr.kinds.mechanic.program import repair as job
from mngr.kinds.mechanic.program.repair_edits import write_atomically
from tests.conftest import run_git

pytestmark = pytest.mark.agents

HEAD = "from mngr.e2e import E2eSession, expect\n\n\n"
PYTEST = [
    sys.executable,
    "-m",
    "pytest",
    "-q",
    "-p",
    "no:xdist",
    "-p",
    "no:hypothesispytest",
    "-p",
    "no:cacheprovider",
]


@pytest.fixture
def project(repo: Path) -> Path:
    """A project with only a pytest configuration; the programs under test are shell commands."""
    (repo / "pytest.ini").write_text("[pytest]\n")
    return repo


def repair(project: Path, body: str, **options: Any) -> dict[str, Any]:
    (project / "test_x.py").write_text(HEAD + body)
    run_git(project, "add", ".")
    run_git(project, "commit", "-qm", "tests")
    return repair_again(project, **options)


def repair_again(project: Path, **options: Any) -> dict[str, Any]:
    request = {"test": "test_x.py::test_x", "command": [*PYTEST, "test_x.py::test_x"], "runs": 1, **options}
    outputs = project.parent / "outputs"
    result = job.repair_tests(request, str(project), str(outputs), lambda: None)
    assert json.loads((outputs / "result.json").read_text()) == result
    assert run_git(project, "status", "--porcelain", "--untracked-files=no") == ""
    return result


def test_several_failures_are_repaired_one_after_the_other(project: Path) -> None:
    program = project / "say"
    program.write_text("case $1 in 1) echo the first word;; 2) echo what is done; echo done;; esac\n")
    body = f"""def test_x(e2e: E2eSession) -> None:
    one = e2e.run("sh {program} 1")
    expect(one).to_succeed()
    assert "that first word" in one.stdout
    two = e2e.run("sh {program} 2")
    expect(two.stdout).to_contain("what was done")
"""
    result = repair(project, body)
    assert (result["outcome"], result["before"], result["after"]) == ("fixed", "fail", "pass"), result
    assert [change["kind"] for change in result["changes"]] == ["FIX_TEST", "IMPROVE_TEST"]
    assert (
        run_git(project, "log", "-2", "--format=%H %s")
        .split("\n")[1]
        .startswith(result["changes"][0]["commits"][0] + " [FIX_TEST]")
    )
    text = (project / "test_x.py").read_text()
    assert 'assert "the first word" in' in text and 'to_contain("what is done")' in text
    assert "    expect(two).to_succeed()\n" in text


def test_all_affected_tests_of_a_root_cause_are_repaired(project: Path) -> None:
    """Anything else in these tests stays unchanged."""
    program = project.parent / "say"
    program.write_text('case $1 in --old) echo "unknown option --old; did you mean --new?" >&2; exit 2;; esac\n')
    test = (
        f'(e2e: E2eSession) -> None:\n    e2e.run("true")\n    expect(e2e.run("sh {program} --old")).to_succeed()\n\n\n'
    )
    body = f"def test_x{test}def test_y{test}"
    result = repair(project, body, task="cause-1", affected_tests=["test_x.py::test_y"])
    assert (result["task"], result["outcome"], result["after"]) == ("cause-1", "fixed", "pass"), result
    [change] = result["changes"]
    assert change["kind"] == "FIX_TEST" and len(change["commits"]) == 2
    assert (project / "test_x.py").read_text() == HEAD + body.replace("--old", "--new")
    assert {row["name"] for row in result["runs"]} >= {"test_x-before", "test_y-before"}
    program.write_text("exit 3\n")
    result = repair_again(project, affected_tests=["test_x.py::test_y"])
    assert result["outcome"] == "blocked" and [row["kind"] for row in result["escalations"]] == ["SHARED_CAUSE"]


def test_a_partial_repair_is_discarded(project: Path) -> None:
    (project / "say").write_text("echo the first word; echo 3 words\n")
    body = f"""def test_x(e2e: E2eSession) -> None:
    result = e2e.run("sh {project}/say")
    expect(result).to_succeed()
    expect(result.stdout).to_contain("our first word")
    expect(result.stdout).to_contain("2 words")
"""
    result = repair(project, body)
    assert (result["outcome"], result["after"], result["changes"]) == ("blocked", "fail", [])
    assert "is a value" in result["escalations"][0]["title"] and len(result["runs"]) == 2
    assert (project / "test_x.py").read_text() == HEAD + body


def test_a_flaky_test_is_not_changed(project: Path) -> None:
    marker = project.parent / "mark"
    body = f'def test_x(e2e: E2eSession) -> None:\n    assert e2e.run("mkdir {marker}").exit_code == 0\n'
    result = repair(project, body, runs=2)
    assert (result["outcome"], result["before"], result["after"]) == ("blocked", "flaky", "flaky")
    assert result["changes"] == [] and "1 of 2 runs" in result["escalations"][0]["title"]


def test_an_interrupted_repair_continues(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first interruption is during an edit, the second one between a commit and its record."""
    body = 'def test_x(e2e: E2eSession) -> None:\n    e2e.run("true")\n'

    class CutOff(BaseException):
        pass

    def cut_off(*_: object) -> None:
        raise CutOff

    with monkeypatch.context() as patch, pytest.raises(CutOff):
        patch.setattr(job._TestRepair, "_build_outcome", cut_off)
        repair(project, body)
    assert "to_succeed" in (project / "test_x.py").read_text()
    with monkeypatch.context() as patch, pytest.raises(CutOff):
        patch.setattr(
            job,
            "write_atomically",
            lambda path, text: cut_off() if '"done": [{' in text else write_atomically(path, text),
        )
        repair_again(project)
    head = run_git(project, "rev-parse", "HEAD").strip()
    result = repair_again(project)
    assert result["outcome"] == "improved"
    assert result["changes"][0]["commits"] == [head] == [run_git(project, "rev-parse", "HEAD").strip()]
    assert run_git(project, "log", "--format=%s").count("[IMPROVE_TEST]") == 1


def test_a_missing_test_program_or_syntax_error_is_reported(project: Path) -> None:
    result = repair(project, "def test_y(e2e): pass\n")
    assert result["outcome"] == "failed" and "does not exist" in result["summary"]
    result = repair_again(project, command=["no-such-program"])
    assert result["outcome"] == "failed" and "no-such-program" in result["summary"]
    result = repair(project, "def test_x(e2e)\n")
    assert result["outcome"] == "blocked" and result["escalations"][0]["kind"] == "HARNESS_DEFECT"


def test_the_recording_plugin_leaves_no_trace_in_the_project(project: Path) -> None:
    """Only environment variables load the recording plugin into pytest."""
    result = repair(project, 'def test_x(e2e: E2eSession) -> None:\n    expect(e2e.run("true; exit 3")).to_fail(3)\n')
    assert result["outcome"] == "unchanged" and result["escalations"] == []
    assert (project.parent / "outputs" / "runs" / "before" / "transcript.txt").read_text() == "$ true; exit 3\n? 3\n"
    completed = subprocess.run([*PYTEST, "--trace-config"], cwd=project, capture_output=True, text=True, check=True)
    assert "mechanic" not in completed.stdout
