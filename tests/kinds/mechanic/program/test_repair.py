"""A test is run for real, mended or not, and what is left are commits and a result."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mngr.kinds.mechanic.program import repair as job
from mngr.kinds.mechanic.program.workspace_files import write_atomically
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
    """Nothing but a configuration; the programs under test are those of the shell."""
    (repo / "pytest.ini").write_text("[pytest]\n")
    return repo


def repair(project: Path, body: str, **more: Any) -> dict[str, Any]:
    (project / "test_x.py").write_text(HEAD + body)
    run_git(project, "add", ".")
    run_git(project, "commit", "-qm", "tests")
    return again(project, **more)


def again(project: Path, **more: Any) -> dict[str, Any]:
    asked = {"test": "test_x.py::test_x", "command": [*PYTEST, "test_x.py::test_x"], "k": 1, **more}
    outputs = project.parent / "outputs"
    made = job.repair_tests(asked, str(project), str(outputs), lambda: None)
    assert json.loads((outputs / "result.json").read_text()) == made
    assert run_git(project, "status", "--porcelain", "--untracked-files=no") == ""
    return made


def test_several_failures_one_after_the_other(project: Path) -> None:
    say = project / "say"
    say.write_text("case $1 in 1) echo the first word;; 2) echo what is done; echo done;; esac\n")
    body = f"""def test_x(e2e: E2eSession) -> None:
    one = e2e.run("sh {say} 1")
    expect(one).to_succeed()
    assert "that first word" in one.stdout
    two = e2e.run("sh {say} 2")
    expect(two.stdout).to_contain("what was done")
"""
    made = repair(project, body)
    assert (made["outcome"], made["before"], made["after"]) == ("fixed", "fail", "pass"), made
    assert [one["kind"] for one in made["changes"]] == ["FIX_TEST", "IMPROVE_TEST"]
    assert (
        run_git(project, "log", "-2", "--format=%H %s")
        .split("\n")[1]
        .startswith(made["changes"][0]["commits"][0] + " [FIX_TEST]")
    )
    text = (project / "test_x.py").read_text()
    assert 'assert "the first word" in' in text and 'to_contain("what is done")' in text
    assert "    expect(two).to_succeed()\n" in text


def test_one_cause_of_several(project: Path) -> None:
    """Each witness is mended too, and what is no part of the cause is left alone."""
    say = project.parent / "say"
    say.write_text('case $1 in --old) echo "unknown option --old; did you mean --new?" >&2; exit 2;; esac\n')
    test = f'(e2e: E2eSession) -> None:\n    e2e.run("true")\n    expect(e2e.run("sh {say} --old")).to_succeed()\n\n\n'
    body = f"def test_x{test}def test_y{test}"
    made = repair(project, body, task="cause-1", witnesses=["test_x.py::test_y"])
    assert (made["task"], made["outcome"], made["after"]) == ("cause-1", "fixed", "pass"), made
    [change] = made["changes"]
    assert change["kind"] == "FIX_TEST" and len(change["commits"]) == 2
    assert (project / "test_x.py").read_text() == HEAD + body.replace("--old", "--new")
    assert {row["name"] for row in made["runs"]} >= {"test_x-before", "test_y-before"}
    say.write_text("exit 3\n")
    made = again(project, witnesses=["test_x.py::test_y"])
    assert made["outcome"] == "blocked" and [row["kind"] for row in made["escalations"]] == ["SHARED_CAUSE"]


def test_half_a_repair_is_none(project: Path) -> None:
    (project / "say").write_text("echo the first word; echo 3 words\n")
    body = f"""def test_x(e2e: E2eSession) -> None:
    result = e2e.run("sh {project}/say")
    expect(result).to_succeed()
    expect(result.stdout).to_contain("our first word")
    expect(result.stdout).to_contain("2 words")
"""
    made = repair(project, body)
    assert (made["outcome"], made["after"], made["changes"]) == ("blocked", "fail", [])
    assert "is a value" in made["escalations"][0]["title"] and len(made["runs"]) == 2
    assert (project / "test_x.py").read_text() == HEAD + body


def test_what_passes_only_at_times_is_not_touched(project: Path) -> None:
    mark = project.parent / "mark"
    body = f'def test_x(e2e: E2eSession) -> None:\n    assert e2e.run("mkdir {mark}").exit_code == 0\n'
    made = repair(project, body, k=2)
    assert (made["outcome"], made["before"], made["after"]) == ("blocked", "flaky", "flaky")
    assert made["changes"] == [] and "1 of 2 runs" in made["escalations"][0]["title"]


def test_it_goes_on_after_being_cut_off(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once while it tries an edit, once when the commit is made and not yet written down."""
    body = 'def test_x(e2e: E2eSession) -> None:\n    e2e.run("true")\n'

    class CutOff(BaseException):
        pass

    def cut_off(*_: object) -> None:
        raise CutOff

    with monkeypatch.context() as during, pytest.raises(CutOff):
        during.setattr(job._TestRepair, "_build_outcome", cut_off)
        repair(project, body)
    assert "to_succeed" in (project / "test_x.py").read_text()
    with monkeypatch.context() as during, pytest.raises(CutOff):
        during.setattr(
            job,
            "write_atomically",
            lambda path, text: cut_off() if '"done": [{' in text else write_atomically(path, text),
        )
        again(project)
    head = run_git(project, "rev-parse", "HEAD").strip()
    made = again(project)
    assert made["outcome"] == "improved"
    assert made["changes"][0]["commits"] == [head] == [run_git(project, "rev-parse", "HEAD").strip()]
    assert run_git(project, "log", "--format=%s").count("[IMPROVE_TEST]") == 1


def test_what_cannot_be_tried(project: Path) -> None:
    made = repair(project, "def test_y(e2e): pass\n")
    assert made["outcome"] == "failed" and "no such test" in made["summary"]
    made = again(project, command=["no-such-program"])
    assert made["outcome"] == "failed" and "no-such-program" in made["summary"]
    made = repair(project, "def test_x(e2e)\n")
    assert made["outcome"] == "blocked" and made["escalations"][0]["kind"] == "HARNESS_DEFECT"


def test_the_probe_does_not_stay(project: Path) -> None:
    """What the mechanic needs in order to see goes in by the environment alone."""
    made = repair(project, 'def test_x(e2e: E2eSession) -> None:\n    expect(e2e.run("true; exit 3")).to_fail(3)\n')
    assert made["outcome"] == "unchanged" and made["escalations"] == []
    assert (project.parent / "outputs" / "runs" / "before" / "transcript.txt").read_text() == "$ true; exit 3\n? 3\n"
    done = subprocess.run([*PYTEST, "--trace-config"], cwd=project, capture_output=True, text=True, check=True)
    assert "mechanic" not in done.stdout
