"""`mngr tutorial sync`: an agent writes what is missing, we check it, and it hears what is still wrong."""

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
    """A tutorial of two blocks, of which one has a test."""
    tests = mngr.repo / "tests"
    tests.mkdir()
    (mngr.repo / "tutorial.sh").write_text(SCRIPT)
    (tests / "test_hello.py").write_text(CITES.format(name="hello", comment="say hello"))
    run_git(mngr.repo, "add", "-A")
    run_git(mngr.repo, "commit", "-qm", "a tutorial")
    mngr.env["MNGR__PROJECT__PYTEST"] = f"{sys.executable} -m pytest -p no:cacheprovider"
    return mngr


def play(project: MngrProgram, *turns: list[object], code: int, rounds: int = 3) -> dict[str, object]:
    """By an agent that does so much in each turn."""
    steps = [step for turn in turns for step in [*turn, "wait"]]
    words = ["tutorial", "sync", "--agent", "player", "--rounds", str(rounds), "--format", "json"]
    found: dict[str, object] = project(*words, "--", json.dumps(steps), code=code).parse_json()
    return found


def write(name: str, comment: str, path: str = "tests/test_new.py") -> list[object]:
    content = CITES.format(name=name, comment=comment)
    return [{"write": {"path": path, "content": content}}, {"commit": f"[ADD_TEST] {name}"}]


def said_to(project: MngrProgram, name: object) -> list[str]:
    rows = project.run_json("transcript", str(name))["transcript"]
    return [row["text"] for row in rows if row["role"] == "user"]


def test_the_mechanic_needs_no_model(project: MngrProgram) -> None:
    found = project("tutorial", "sync", "--format", "json").parse_json()
    assert [(row["slug"], row["tests"], row["observed"]) for row in found["blocks"]] == [
        ("say-hello", ["tests/test_hello.py::test_hello"], False),
        ("and-bye", ["tests/test_observed.py::test_and_bye"], True),
    ]
    assert run_git(project.repo, "branch", "--show-current").strip() == "main"
    assert not (project.repo / "tests" / "test_observed.py").exists()
    run_git(project.repo, "merge", "-q", "--ff-only", found["branch"])
    assert "2 of 2 blocks are cited; 1 observed, not reviewed" in project("tutorial", "check").out
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project.repo,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert project.get_agent(found["agent"])["state"] == "STOPPED"
    assert "every block has a test" in project("tutorial", "sync").out


def test_an_agent_is_told_what_is_missing_and_what_is_still_wrong(project: MngrProgram) -> None:
    found = play(project, [], write("bye", "and by"), write("bye", "and bye"), code=0)
    assert found["rounds"] == 3 and found["problems"] == []
    first, second, third = said_to(project, found["agent"])
    assert first.startswith("Bring the tests in tests up to date with tutorial.sh.\n")
    assert "```sh\n# and bye\necho bye\n```" in first and "# say hello\necho hello\n```" not in first
    assert "# tests/test_hello.py::test_hello" in first  # to learn from
    assert "has committed nothing" in second
    assert "tests/test_new.py:5: stale: " in third and "tutorial.sh:8: gap: " in third


def test_what_cannot_be_loaded_is_told(project: MngrProgram) -> None:
    broken = [
        {"write": {"path": "tests/test_x.py", "content": "import not_there\n"}},
        {"commit": "[ADD_TEST] x"},
    ]
    found = play(project, [*broken, *write("bye", "and bye")], code=1, rounds=1)
    said = "tests/test_x.py:1: does not import: ModuleNotFoundError: No module named 'not_there'"
    assert found["problems"] == [said]


def test_what_is_not_its_to_change_is_told_and_reported(project: MngrProgram) -> None:
    also: list[object] = [
        {"write": {"path": "README.md", "content": "mine\n"}},
        {"write": {"path": "tutorial.sh", "content": SCRIPT.replace("bye", "by")}},
        *write("bye", "and bye"),
        {"write": {"path": "tests/more.py", "content": ""}},
    ]
    back: list[object] = [
        {"write": {"path": "tutorial.sh", "content": SCRIPT}},
        {"commit": "[FIX_TEST] back"},
    ]
    found = play(project, also, back, code=1, rounds=2)
    base = run_git(project.repo, "rev-parse", "HEAD").strip()[:12]
    other = "README.md was changed, and nothing but tests is yours to change: make it as it is in " + base
    assert found["problems"] == [other]
    told = said_to(project, found["agent"])[1]
    assert other in told and "tutorial.sh was changed" in told
    assert "tests/more.py has changes that are not committed" in told


def test_what_of_the_script_cannot_be_read_is_named_and_the_rest_goes_on(project: MngrProgram) -> None:
    (project.repo / "tutorial.sh").write_text(SCRIPT + "\n# and this\necho 'so\n")
    (project.repo / "tests" / "test_broken.py").write_text("\ndef test_x(:\n")
    run_git(project.repo, "add", "-A")
    run_git(project.repo, "commit", "-qm", "worse")
    ran = project("tutorial", "sync", code=1)
    assert "and-bye: tests/test_observed.py::test_and_bye (observed)" in ran.out
    assert "tests/test_broken.py:2: unreadable: does not parse: invalid syntax\n" in ran.err
    assert "tutorial.sh:12: unreadable: the ' is never closed\n" in ran.err
    run_git(project.repo, "rm", "-q", "tests/test_broken.py")
    (project.repo / "tests" / "test_bye.py").write_text(CITES.format(name="bye", comment="and bye"))
    cited = CITES.format(name="this", comment="and this").replace("echo this", "echo 'so", 1)
    (project.repo / "tests" / "test_this.py").write_text(cited)
    ran = project("tutorial", "sync", code=1)
    assert "tutorial.sh:12: unreadable" in ran.err and "mend the script" in ran.err
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


def test_blocks_of_which_no_test_can_be_made_are_named_with_the_reason(project: MngrProgram) -> None:
    (project.repo / "tutorial.sh").write_text(BAD)
    run_git(project.repo, "rm", "-q", "tests/test_hello.py")
    (project.repo / "tests").mkdir()
    run_git(project.repo, "commit", "-qam", "bad blocks")
    project.env["MNGR__TUTORIAL__TIMEOUT"] = "1s"
    ran = project("tutorial", "sync", code=1)
    assert "and-bye: tests/test_observed.py::test_and_bye (observed)\n" in ran.out
    rows = [line for line in ran.err.splitlines() if line.startswith("tutorial.sh:")]
    start = "gap: no test cites this block: "
    assert rows == [
        f"tutorial.sh:3: {start}never-ends; failed: it did not end within 1 s, or waits for something",
        f"tutorial.sh:6: {start}asks; failed: it asks for input: it ends with 1",
        f"tutorial.sh:9: {start}far-away; failed: it needs the network: it ends with 6: "
        "curl: (6) Could not resolve host: example.invalid",
        f"tutorial.sh:12: {start}is-not-there; failed: it ends with 127: sh: 4: no-such-program: not found",
    ]


def test_a_job_that_was_cut_short_is_done_after_the_next_start(project: MngrProgram) -> None:
    """Whoever told it is gone by then; its work is on its branch all the same, once."""
    gate = project.repo.parent / "gate"
    gate.touch()
    block = f"# and bye\nwhile [ -e {gate} ]; do sleep 0.1; done; echo bye\n"
    (project.repo / "tutorial.sh").write_text(f"# one\necho 1\n\n{block}")
    run_git(project.repo, "rm", "-q", "tests/test_hello.py")
    (project.repo / "tests").mkdir()
    run_git(project.repo, "commit", "-qam", "slow")

    def blocks() -> list[str]:
        found = subprocess.run(["pgrep", "-f", f"while . -e {gate}"], capture_output=True, check=False)
        return found.stdout.decode().split()

    argv = [str(BIN_DIR / "mngr"), "tutorial", "sync"]
    with subprocess.Popen(argv, cwd=project.repo, env=project.env, stderr=subprocess.PIPE) as sync:
        wait_for(blocks)
        (agent,) = project.list_agents()
        name = agent["name"]
        project("stop", name)
        said = sync.communicate()[1].decode()
    assert f"{name} cannot go on: it is STOPPED" in said and sync.returncode == 1
    assert blocks() == []
    project("start", name)
    wait_for(blocks)
    os.kill(project.get_agent(name)["pid"], signal.SIGKILL)
    wait_for(lambda: project.get_agent(name)["state"] == "FAILED")
    gate.unlink()
    project("start", name)
    project("wait", name, "--timeout", "30")
    made = run_git(project.repo, "show", f"{agent['branch']}:tests/test_observed.py")
    assert made.count("def test_one(") == made.count("def test_and_bye(") == 1
    project("message", name, "--wait", stdin=said_to(project, name)[0])
    assert "- one: has a test already" in project.run_json("transcript", name)["transcript"][-1]["text"]
    assert run_git(project.repo, "show", f"{agent['branch']}:tests/test_observed.py") == made


def test_what_is_left_is_named(project: MngrProgram) -> None:
    ran = project("tutorial", "sync", "--agent", "player", "--rounds", "1", "--", '[{"reply": "no"}]', code=1)
    assert "things are still wrong" in ran.err and "mngr connect sync-" in ran.err


def test_a_project_in_a_part_of_its_repository(project: MngrProgram) -> None:
    place = project.repo / "shop"
    (place / ".mngr").mkdir(parents=True)
    (place / ".mngr" / "settings.toml").write_text("")
    run_git(project.repo, "mv", "tutorial.sh", "tests", "shop")
    run_git(project.repo, "add", "-Af")
    run_git(project.repo, "commit", "-qm", "moved")
    found = project("tutorial", "sync", "--format", "json", cwd=place).parse_json()
    assert [row["tests"] for row in found["blocks"]][1] == ["tests/test_observed.py::test_and_bye"]
    assert run_git(project.repo, "diff", "--name-only", f"...{found['branch']}") == "shop/tests/test_observed.py"
    assert "All of this is in shop/ of the repository" in said_to(project, found["agent"])[0]


def test_stale_citations_are_not_for_the_mechanic(project: MngrProgram) -> None:
    path = project.repo / "tests" / "test_bye.py"
    path.write_text(CITES.format(name="bye", comment="and by"))
    run_git(project.repo, "add", "-A")
    run_git(project.repo, "commit", "-qm", "stale")
    script = project.repo / "tutorial.sh"
    script.write_text(SCRIPT.replace("# and bye\necho bye\n", ""))
    run_git(project.repo, "commit", "-qam", "shorter")
    assert "there is no such block" in project("tutorial", "sync", code=1).err
    assert project.list_agents() == []


def test_what_is_not_committed(project: MngrProgram) -> None:
    (project.repo / "tutorial.sh").write_text(SCRIPT + "\n# more\necho more\n")
    assert "changes that are not committed" in project("tutorial", "sync", code=1).err
    assert project.list_agents() == []


def test_behind_walls(project: MngrProgram) -> None:
    found = project("tutorial", "sync", "--sandbox", "--format", "json", code=None)
    rows = found.parse_json()["blocks"]
    assert [row["tests"] for row in rows][1] == ["tests/test_observed.py::test_and_bye"], found.err
    assert Path(project.home, "agents").is_dir()
