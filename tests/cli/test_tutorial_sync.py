"""`mngr tutorial sync`: an agent writes what is missing, we check it, and it hears what is still wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Mngr, git

SCRIPT = """#!/bin/sh

set -e

# say hello
echo hello

# and bye
echo bye
"""
CITES = '''from mngr.e2e import E2eSession, expect


def test_{name}(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # {comment}
    echo {name}
    """)
    expect(e2e.run("echo {name}")).to_succeed()
'''


@pytest.fixture
def project(mngr: Mngr) -> Mngr:
    """A tutorial of two blocks, of which one has a test."""
    tests = mngr.repo / "tests"
    tests.mkdir()
    (mngr.repo / "tutorial.sh").write_text(SCRIPT)
    (tests / "test_hello.py").write_text(CITES.format(name="hello", comment="say hello"))
    git(mngr.repo, "add", "-A")
    git(mngr.repo, "commit", "-qm", "a tutorial")
    mngr.env["MNGR__PROJECT__PYTEST"] = f"{sys.executable} -m pytest -p no:cacheprovider"
    return mngr


def play(project: Mngr, *turns: list[object], code: int, rounds: int = 3) -> dict[str, object]:
    """By an agent that does so much in each turn."""
    steps = [step for turn in turns for step in [*turn, "wait"]]
    words = ["tutorial", "sync", "--agent", "player", "--rounds", str(rounds), "--format", "json"]
    found: dict[str, object] = project(*words, "--", json.dumps(steps), code=code).json()
    return found


def write(name: str, comment: str, path: str = "tests/test_new.py") -> list[object]:
    content = CITES.format(name=name, comment=comment)
    return [{"write": {"path": path, "content": content}}, {"commit": f"[ADD_TEST] {name}"}]


def said_to(project: Mngr, name: object) -> list[str]:
    rows = project.json("transcript", str(name))["transcript"]
    return [row["text"] for row in rows if row["role"] == "user"]


def test_the_mechanic_needs_no_model(project: Mngr) -> None:
    found = project("tutorial", "sync", "--format", "json").json()
    assert [(row["slug"], row["tests"], row["observed"]) for row in found["blocks"]] == [
        ("say-hello", ["tests/test_hello.py::test_hello"], False),
        ("and-bye", ["tests/test_observed.py::test_and_bye"], True),
    ]
    assert git(project.repo, "branch", "--show-current").strip() == "main"
    assert not (project.repo / "tests" / "test_observed.py").exists()
    git(project.repo, "merge", "-q", "--ff-only", found["branch"])
    assert "2 of 2 blocks are cited; 1 observed, not reviewed" in project("tutorial", "check").out
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project.repo,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert project.agent(found["agent"])["state"] == "STOPPED"
    assert "every block has a test" in project("tutorial", "sync").out


def test_an_agent_is_told_what_is_missing_and_what_is_still_wrong(project: Mngr) -> None:
    found = play(project, [], write("bye", "and by"), write("bye", "and bye"), code=0)
    assert found["rounds"] == 3 and found["problems"] == []
    first, second, third = said_to(project, found["agent"])
    assert first.startswith("Bring the tests in tests up to date with tutorial.sh.\n")
    assert "```sh\n# and bye\necho bye\n```" in first and "# say hello\necho hello\n```" not in first
    assert "# tests/test_hello.py::test_hello" in first  # to learn from
    assert "has committed nothing" in second
    assert "stale: tests/test_new.py:5" in third and "gap: tutorial.sh:8" in third


def test_what_cannot_be_loaded_is_told(project: Mngr) -> None:
    broken = [
        {"write": {"path": "tests/test_x.py", "content": "import not_there\n"}},
        {"commit": "[ADD_TEST] x"},
    ]
    found = play(project, [*broken, *write("bye", "and bye")], code=1, rounds=1)
    problems = found["problems"]
    assert isinstance(problems, list) and len(problems) == 1
    assert "--collect-only" in problems[0] and "not_there" in problems[0]


def test_what_is_left_is_named(project: Mngr) -> None:
    ran = project("tutorial", "sync", "--agent", "player", "--rounds", "1", "--", '[{"reply": "no"}]', code=1)
    assert "things are still wrong" in ran.err and "mngr connect sync-" in ran.err


def test_stale_citations_are_not_for_the_mechanic(project: Mngr) -> None:
    path = project.repo / "tests" / "test_bye.py"
    path.write_text(CITES.format(name="bye", comment="and by"))
    git(project.repo, "add", "-A")
    git(project.repo, "commit", "-qm", "stale")
    script = project.repo / "tutorial.sh"
    script.write_text(SCRIPT.replace("# and bye\necho bye\n", ""))
    git(project.repo, "commit", "-qam", "shorter")
    assert "there is no such block" in project("tutorial", "sync", code=1).err
    assert project.agents() == []


def test_what_is_not_committed(project: Mngr) -> None:
    (project.repo / "tutorial.sh").write_text(SCRIPT + "\n# more\necho more\n")
    assert "changes that are not committed" in project("tutorial", "sync", code=1).err
    assert project.agents() == []


def test_behind_walls(project: Mngr) -> None:
    found = project("tutorial", "sync", "--sandbox", "--format", "json", code=None)
    rows = found.json()["blocks"]
    assert [row["tests"] for row in rows][1] == ["tests/test_observed.py::test_and_bye"], found.err
    assert Path(project.home, "agents").is_dir()
