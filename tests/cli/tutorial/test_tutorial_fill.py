"""`mngr tutorial fill`: proposals for blanks, each tried, as a patch; and what misled who made them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from mngr.testkit.contract.terminal import PtyTerminal
from tests.conftest import BIN_DIR, MngrProgram, run_git

pytestmark = pytest.mark.agents

SCRIPT = """#!/bin/sh

##############################
# Words
##############################

# say hello
greet hello

##############################
# Undo
##############################

##############################
# Lists
##############################
"""
UNDO = "# say it backwards\ngreet olleh\n\n# this fails\ngreet --fail\n"
GREET = """#!/bin/sh
case $1 in
--help) printf 'usage: greet [--fail] WORD\\n\\noptions:\\n  --fail  fail\\n' ;;
--fail) echo 'cannot greet' >&2; exit 3 ;;
*) echo "$1!" ;;
esac
"""


@pytest.fixture
def project(mngr: MngrProgram, tmp_path: Path) -> MngrProgram:
    """A tutorial with two blanks, of a program that is installed."""
    program = tmp_path / "bin" / "greet"
    program.parent.mkdir()
    program.write_text(GREET)
    program.chmod(0o755)
    mngr.env["PATH"] = f"{program.parent}:{mngr.env['PATH']}"
    mngr.env["MNGR__PROJECT__PROGRAM"] = "greet"
    (mngr.repo / "tutorial.sh").write_text(SCRIPT)
    run_git(mngr.repo, "add", "-A")
    run_git(mngr.repo, "commit", "-qm", "a tutorial")
    return mngr


def scenario(*texts: str) -> str:
    """An agent that commits these scripts, one each turn."""
    steps: list[object] = []
    for text in texts:
        steps += [
            {"write": {"path": "tutorial.sh", "content": text}},
            {"commit": "[FIX_TUTORIAL] more"},
            "wait",
        ]
    return json.dumps(steps)


def with_undo(text: str = UNDO) -> str:
    return SCRIPT.replace(
        "# Undo\n##############################\n", f"# Undo\n##############################\n\n{text}"
    )


WORDS = ("tutorial", "fill", "--agent", "player", "--section", "undo")


def test_a_patch_with_the_outcome_of_each_block(project: MngrProgram) -> None:
    found = project(*WORDS, "--format", "json", "--", scenario(with_undo())).parse_json()
    assert [(one["heading"], one["text"], one["ok"]) for one in found["proposals"]] == [
        ("Undo", "# say it backwards\ngreet olleh", True),
        ("Undo", "# this fails\ngreet --fail", False),
    ]
    assert found["proposals"][0]["outcome"] == "olleh!"
    assert "ends with 3: cannot greet" in found["proposals"][1]["outcome"]
    assert found["left"] == [] and found["confusion"] == []
    assert (project.repo / "tutorial.sh").read_text() == SCRIPT
    subprocess.run(["git", "apply"], input=found["patch"], text=True, cwd=project.repo, check=True)
    assert (project.repo / "tutorial.sh").read_text() == with_undo()
    assert {agent["state"] for agent in project.list_agents()} == {"STOPPED"}


def test_the_brief_has_the_help_and_only_the_blanks_that_are_wanted(project: MngrProgram) -> None:
    found = project(*WORDS, "--format", "json", "--", scenario(with_undo())).parse_json()
    said = project.run_json("transcript", found["agent"])["transcript"][0]["text"]
    assert "usage: greet [--fail] WORD" in said
    assert "Undo" in said and "Lists" not in said


def test_what_is_wrong_is_told(project: MngrProgram) -> None:
    words = (*WORDS, "--rounds", "2", "--format", "json", "--")
    found = project(*words, scenario(with_undo().replace("greet hello", "greet hi"), with_undo())).parse_json()
    rows = project.run_json("transcript", found["agent"])["transcript"]
    told = [row["text"] for row in rows if row["role"] == "user"]
    assert len(told) == 2 and "tutorial.sh:8: this line was changed or taken away: greet hello" in told[1]
    assert len(found["proposals"]) == 2


def test_what_else_was_changed_is_told_reported_and_not_in_the_patch(project: MngrProgram) -> None:
    """Not under the blank, another blank, another file; and the heading may become the comment of the first block."""
    tail = "\n# by number\n\n# list them\ngreet 1"
    (project.repo / "tutorial.sh").write_text(SCRIPT + tail)
    run_git(project.repo, "commit", "-qam", "more")
    more = (
        with_undo("greet olleh\n")
        .replace("##\n\ngreet", "##\ngreet")
        .replace("greet hello\n", "greet hello\n\n# two\ngreet two\n")
    )
    steps = [
        {"write": {"path": "README.md", "content": "x"}},
        *json.loads(scenario(f"{more}{tail}\ngreet 3\n")),
    ]
    ran = project(*WORDS, "--rounds", "1", "--output", "fill.patch", "--", json.dumps(steps), code=1)
    assert "tutorial.sh:12: Undo: # Undo: works\n" in ran.err
    assert "tutorial.sh:10: this was added where no blank is to be filled: # two\n" in ran.err
    assert "tutorial.sh:26: this was added where no blank is to be filled: greet 3\n" in ran.err
    assert "README.md was changed, and nothing but tutorial.sh is yours to change" in ran.err
    assert "Error: more was changed than the blanks" in ran.err
    run_git(project.repo, "apply", "fill.patch")
    wanted = SCRIPT.replace(
        "# Undo\n##############################\n", "# Undo\n##############################\ngreet olleh\n"
    )
    assert (project.repo / "tutorial.sh").read_text() == wanted + tail


def test_under_the_last_line(project: MngrProgram) -> None:
    for end in ("", "\r\n"):
        text = (SCRIPT + "\n# by number").replace("\n", end or "\n") + end
        (project.repo / "tutorial.sh").write_bytes(text.encode())
        run_git(project.repo, "commit", "-qam", "other ends")
        more = text.rstrip() + "\n\n# three\ngreet 3\n"
        words = ("tutorial", "fill", "--agent", "player", "--section", "number", "--output", "fill.patch")
        project(*words, "--", scenario(more))
        run_git(project.repo, "apply", "fill.patch")
        ending = end or "\n"
        wanted = text.rstrip() + f"{ending}{ending}# three{ending}greet 3{ending}"
        assert (project.repo / "tutorial.sh").read_bytes().decode() == wanted


def test_a_file_for_the_patch(project: MngrProgram) -> None:
    ran = project(*WORDS, "--output", "fill.patch", "--", scenario(with_undo()))
    assert "Undo: # say it backwards: works" in ran.err
    assert "Undo: # this fails: does not work: it ends with 3" in ran.err
    assert ran.out == "wrote fill.patch; then: git apply fill.patch\n"
    run_git(project.repo, "apply", "fill.patch")


def test_block_by_block(project: MngrProgram) -> None:
    argv = [
        str(BIN_DIR / "mngr"),
        *WORDS,
        "--interactive",
        "--output",
        "fill.patch",
        "--",
        scenario(with_undo()),
    ]
    env = {**project.env, "TERM": "xterm-256color", "EDITOR": "sed -i s/--fail/again/"}
    with PtyTerminal(argv, project.repo, env) as terminal:
        terminal.wait_for_text("[k]eep, [e]dit or [d]rop?", timeout=60)
        terminal.type("d\r")
        terminal.wait_for_text("does not work: it ends with 3")
        terminal.wait_for_text("[k]eep, [e]dit or [d]rop?")
        terminal.type("e\r")
        terminal.wait_for_text("changed by you, and not tried")
        terminal.wait_for_text("[k]eep, [e]dit or [d]rop?")
        terminal.type("k\r")
        assert terminal.wait_for_exit() == 0
    run_git(project.repo, "apply", "fill.patch")
    assert (project.repo / "tutorial.sh").read_text() == with_undo("# this fails\ngreet again\n")


def test_bad_input(project: MngrProgram) -> None:
    assert "cannot think of commands" in project("tutorial", "fill", "--agent", "mechanic", code=1).err
    assert "there is no blank to fill" in project("tutorial", "fill", "--section", "nothing such").out
    assert "needs a terminal" in project("tutorial", "fill", "--interactive", code=2).err
    assert "is no amount of money" in project("tutorial", "fill", "--budget", "much", code=2).err
    words = ("tutorial", "fill", "--agent", "player", "--program", "no-such-thing")
    assert "the program no-such-thing is not installed" in project(*words, code=1).err
    assert project.list_agents() == []
    ran = project(*WORDS, "--rounds", "1", "--", "[]", code=1)
    assert "proposed nothing that can be taken" in ran.err
