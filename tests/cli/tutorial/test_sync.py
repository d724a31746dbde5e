"""Tests of `mngr tutorial sync`: an agent writes missing tests, mngr checks them, and reports problems to the agent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import BIN_DIR, MngrProgram, run_git, wait_for

pytestmark = pytest.mark.agents

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
def project(mngr: MngrProgram) -> MngrProgram:
    """A tutorial of two blocks, one of which has a test."""
    tests = mngr.repo / "tests"
    tests.mkdir()
    (mngr.repo / "tutorial.sh").write_text(SCRIPT)
    (tests / "test_hello.py").write_text(CITES.format(name="hello", comment="say hello"))
    run_git(mngr.repo, "add", "-A")
    run_git(mngr.repo, "commit", "-qm", "a tutorial")
    mngr.env["MNGR__PROJECT__PYTEST"] = f"{sys.executable} -m pytest -p no:cacheprovider"
    mngr("trust", "--yes")
    return mngr


def sync_with_player(project: MngrProgram, *turns: list[object], code: int, rounds: int = 3) -> dict[str, object]:
    """Run `tutorial sync` with an agent that does the given steps in each turn, and return the result."""
    steps = [step for turn in turns for step in [*turn, "wait"]]
    words = ["tutorial", "sync", "--agent", "player", "--rounds", str(rounds), "--format", "json"]
    result: dict[str, object] = project(*words, "--", json.dumps(steps), code=code).parse_json()
    return result


def build_test_steps(name: str, comment: str, path: str = "tests/test_new.py") -> list[object]:
    content = CITES.format(name=name, comment=comment)
    return [{"write": {"path": path, "content": content}}, {"commit": f"[ADD_TEST] {name}"}]


def list_messages_to(project: MngrProgram, name: object) -> list[str]:
    rows = project.run_json("transcript", str(name))["transcript"]
    return [row["text"] for row in rows if row["role"] == "user"]


def test_the_mechanic_writes_missing_tests_without_a_model(project: MngrProgram) -> None:
    result = project("tutorial", "sync", "--format", "json").parse_json()
    assert [(row["slug"], row["tests"], row["observed"]) for row in result["blocks"]] == [
        ("say-hello", ["tests/test_hello.py::test_hello"], False),
        ("and-bye", ["tests/test_observed.py::test_and_bye"], True),
    ]
    assert run_git(project.repo, "branch", "--show-current").strip() == "main"
    assert not (project.repo / "tests" / "test_observed.py").exists()
    run_git(project.repo, "merge", "-q", "--ff-only", result["branch"])
    assert "2 of 2 blocks are cited; 1 observed but not reviewed" in project("tutorial", "check").out
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project.repo,
        capture_output=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout
    assert project.get_agent(result["agent"])["state"] == "STOPPED"
    assert "every block has a test" in project("tutorial", "sync").out


def test_the_agent_gets_messages_about_missing_and_wrong_tests(project: MngrProgram) -> None:
    result = sync_with_player(
        project, [], build_test_steps("bye", "and by"), build_test_steps("bye", "and bye"), code=0
    )
    assert result["rounds"] == 3 and result["problems"] == []
    first, second, third = list_messages_to(project, result["agent"])
    assert first.startswith("Update the tests in tests to match tutorial.sh.\n")
    assert "```sh\n# and bye\necho bye\n```" in first and "# say hello\necho hello\n```" not in first
    assert "# tests/test_hello.py::test_hello" in first  # The prompt shows it as an example.
    assert "has committed nothing" in second
    assert "tests/test_new.py:5: stale: " in third and "tutorial.sh:8: gap: " in third


def test_a_test_that_does_not_import_is_reported(project: MngrProgram) -> None:
    broken = [
        {"write": {"path": "tests/test_x.py", "content": "import not_there\n"}},
        {"commit": "[ADD_TEST] x"},
    ]
    result = sync_with_player(project, [*broken, *build_test_steps("bye", "and bye")], code=1, rounds=1)
    problem = "tests/test_x.py:1: cannot be imported: ModuleNotFoundError: No module named 'not_there'"
    assert result["problems"] == [problem]


def test_changes_outside_the_tests_are_reported(project: MngrProgram) -> None:
    forbidden_steps: list[object] = [
        {"write": {"path": "README.md", "content": "mine\n"}},
        {"write": {"path": "tutorial.sh", "content": SCRIPT.replace("bye", "by")}},
        *build_test_steps("bye", "and bye"),
        {"write": {"path": "tests/more.py", "content": ""}},
    ]
    revert_steps: list[object] = [
        {"write": {"path": "tutorial.sh", "content": SCRIPT}},
        {"commit": "[FIX_TEST] back"},
    ]
    result = sync_with_player(project, forbidden_steps, revert_steps, code=1, rounds=2)
    base = run_git(project.repo, "rev-parse", "HEAD").strip()[:12]
    problem = "README.md was changed, but only tests may be changed: restore the version of " + base
    assert result["problems"] == [problem]
    message = list_messages_to(project, result["agent"])[1]
    assert problem in message and "tutorial.sh was changed" in message
    assert "tests/more.py has uncommitted changes" in message


def test_unreadable_parts_are_named_and_the_rest_is_synced(project: MngrProgram) -> None:
    (project.repo / "tutorial.sh").write_text(SCRIPT + "\n# and this\necho 'so\n")
    (project.repo / "tests" / "test_broken.py").write_text("\ndef test_x(:\n")
    run_git(project.repo, "add", "-A")
    run_git(project.repo, "commit", "-qm", "worse")
    result = project("tutorial", "sync", code=1)
    assert "and-bye: tests/test_observed.py::test_and_bye (observed)" in result.out
    assert "tests/test_broken.py:2: unreadable: is not valid Python: invalid syntax\n" in result.err
    assert "tutorial.sh:12: unreadable: the ' is never closed\n" in result.err
    run_git(project.repo, "rm", "-q", "tests/test_broken.py")
    (project.repo / "tests" / "test_bye.py").write_text(CITES.format(name="bye", comment="and bye"))
    cited = CITES.format(name="this", comment="and this").replace("echo this", "echo 'so", 1)
    (project.repo / "tests" / "test_this.py").write_text(cited)
    result = project("tutorial", "sync", code=1)
    assert "tutorial.sh:12: unreadable" in result.err and "correct the script" in result.err
    assert len(project.list_agents()) == 1


BAD = """#!/bin/sh

# never ends
sleep 1000

# asks
read name && echo "hello $name"

# far away
echo "curl: (6) Could not resolve host: example.invalid" >&2; exit 6

# is not there
no-such-program --all

# and bye
echo bye
"""


def test_blocks_that_cannot_be_tested_are_named_with_the_reason(project: MngrProgram) -> None:
    (project.repo / "tutorial.sh").write_text(BAD)
    run_git(project.repo, "rm", "-q", "tests/test_hello.py")
    (project.repo / "tests").mkdir()
    run_git(project.repo, "commit", "-qam", "bad blocks")
    project.env["MNGR__TUTORIAL__TIMEOUT"] = "1s"
    result = project("tutorial", "sync", code=1)
    assert "and-bye: tests/test_observed.py::test_and_bye (observed)\n" in result.out
    rows = [line for line in result.err.splitlines() if line.startswith("tutorial.sh:")]
    start = "gap: no test cites this block: "
    assert rows == [
        f"tutorial.sh:3: {start}never-ends; failed: it did not finish within 1 s; it may be waiting for something",
        f"tutorial.sh:6: {start}asks; failed: it asks for input: it exits with 1",
        f"tutorial.sh:9: {start}far-away; failed: it needs the network: it exits with 6: "
        "curl: (6) Could not resolve host: example.invalid",
        f"tutorial.sh:12: {start}is-not-there; failed: it exits with 127: sh: 4: no-such-program: not found",
    ]


def test_an_interrupted_sync_is_completed_after_the_next_start(project: MngrProgram) -> None:
    """The sync command is gone by then, but the agent still commits its work to its branch, once."""
    gate = project.repo.parent / "gate"
    gate.touch()
    block = f"# and bye\nwhile [ -e {gate} ]; do sleep 0.1; done; echo bye\n"
    (project.repo / "tutorial.sh").write_text(f"# one\necho 1\n\n{block}")
    run_git(project.repo, "rm", "-q", "tests/test_hello.py")
    (project.repo / "tests").mkdir()
    run_git(project.repo, "commit", "-qam", "slow")

    def list_block_pids() -> list[str]:
        process = subprocess.run(["pgrep", "-f", f"while . -e {gate}"], capture_output=True, check=False)
        return process.stdout.decode().split()

    argv = [str(BIN_DIR / "mngr"), "tutorial", "sync"]
    with subprocess.Popen(argv, cwd=project.repo, env=project.env, stderr=subprocess.PIPE) as sync:
        wait_for(list_block_pids)
        (agent,) = project.list_agents()
        name = agent["name"]
        project("stop", name)
        stderr = sync.communicate()[1].decode()
    assert f"{name} cannot continue: it is STOPPED" in stderr and sync.returncode == 1
    assert list_block_pids() == []
    project("start", name)
    wait_for(list_block_pids)
    os.kill(project.get_agent(name)["pid"], signal.SIGKILL)
    wait_for(lambda: project.get_agent(name)["state"] == "FAILED")
    gate.unlink()
    project("start", name)
    project("wait", name, "--timeout", "30")
    tests_source = run_git(project.repo, "show", f"{agent['branch']}:tests/test_observed.py")
    assert tests_source.count("def test_one(") == tests_source.count("def test_and_bye(") == 1
    project("message", name, "--wait", stdin=list_messages_to(project, name)[0])
    assert "- one: already has a test" in project.run_json("transcript", name)["transcript"][-1]["text"]
    assert run_git(project.repo, "show", f"{agent['branch']}:tests/test_observed.py") == tests_source


def test_sync_fails_and_names_the_agent_when_problems_remain(project: MngrProgram) -> None:
    result = project("tutorial", "sync", "--agent", "player", "--rounds", "1", "--", '[{"reply": "no"}]', code=1)
    assert "problems that remain: " in result.err and "mngr connect sync-" in result.err


def test_sync_works_in_a_subdirectory_of_the_repository(project: MngrProgram) -> None:
    shop = project.repo / "shop"
    (shop / ".mngr").mkdir(parents=True)
    (shop / ".mngr" / "settings.toml").write_text("")
    run_git(project.repo, "mv", "tutorial.sh", "tests", "shop")
    run_git(project.repo, "add", "-Af")
    run_git(project.repo, "commit", "-qm", "moved")
    project("trust", "--yes", cwd=shop)
    result = project("tutorial", "sync", "--format", "json", cwd=shop).parse_json()
    assert [row["tests"] for row in result["blocks"]][1] == ["tests/test_observed.py::test_and_bye"]
    assert run_git(project.repo, "diff", "--name-only", f"...{result['branch']}") == "shop/tests/test_observed.py"
    assert "All of this is in the directory shop/ of the repository" in list_messages_to(project, result["agent"])[0]


def test_the_mechanic_does_not_repair_stale_citations(project: MngrProgram) -> None:
    path = project.repo / "tests" / "test_bye.py"
    path.write_text(CITES.format(name="bye", comment="and by"))
    run_git(project.repo, "add", "-A")
    run_git(project.repo, "commit", "-qm", "stale")
    script = project.repo / "tutorial.sh"
    script.write_text(SCRIPT.replace("# and bye\necho bye\n", ""))
    run_git(project.repo, "commit", "-qam", "shorter")
    assert "every block has one" in project("tutorial", "sync", code=1).err
    assert project.list_agents() == []


def test_sync_rejects_uncommitted_changes(project: MngrProgram) -> None:
    (project.repo / "tutorial.sh").write_text(SCRIPT + "\n# more\necho more\n")
    assert "uncommitted changes" in project("tutorial", "sync", code=1).err
    assert project.list_agents() == []


def test_sync_works_in_the_sandbox(project: MngrProgram) -> None:
    result = project("tutorial", "sync", "--sandbox", "--format", "json", code=None)
    rows = result.parse_json()["blocks"]
    assert [row["tests"] for row in rows][1] == ["tests/test_observed.py::test_and_bye"], result.err
    assert Path(project.home, "agents").is_dir()
