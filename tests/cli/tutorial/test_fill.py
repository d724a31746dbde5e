"""Tests of `mngr tutorial fill`: an agent proposes blocks, mngr tries each one, and the result is a patch."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from mngr.testkit.contract.pty_terminal import PtyTerminal
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
    """A tutorial with two empty headings, for a program that is installed."""
    program = tmp_path / "bin" / "greet"
    program.parent.mkdir()
    program.write_text(GREET)
    program.chmod(0o755)
    mngr.env["PATH"] = f"{program.parent}:{mngr.env['PATH']}"
    mngr.env["MNGR__PROJECT__PROGRAM"] = "greet"
    (mngr.repo / "tutorial.sh").write_text(SCRIPT)
    run_git(mngr.repo, "add", "-A")
    run_git(mngr.repo, "commit", "-qm", "a tutorial")
    mngr("trust", "--yes")
    return mngr


def build_scenario(*texts: str) -> str:
    """Return a scenario for an agent that commits these scripts, one in each turn."""
    steps: list[object] = []
    for text in texts:
        steps += [
            {"write": {"path": "tutorial.sh", "content": text}},
            {"commit": "[FIX_TUTORIAL] more"},
            "wait",
        ]
    return json.dumps(steps)


def build_script(text: str = UNDO) -> str:
    return SCRIPT.replace(
        "# Undo\n##############################\n", f"# Undo\n##############################\n\n{text}"
    )


WORDS = ("tutorial", "fill", "--agent", "player", "--section", "undo")


def test_fill_prints_a_patch_and_the_outcome_of_each_block(project: MngrProgram) -> None:
    result = project(*WORDS, "--format", "json", "--", build_scenario(build_script())).parse_json()
    assert [(proposal["heading"], proposal["text"], proposal["ok"]) for proposal in result["proposals"]] == [
        ("Undo", "# say it backwards\ngreet olleh", True),
        ("Undo", "# this fails\ngreet --fail", False),
    ]
    assert result["proposals"][0]["outcome"] == "olleh!"
    assert "exits with 3: cannot greet" in result["proposals"][1]["outcome"]
    assert result["left"] == [] and result["confusion"] == []
    assert (project.repo / "tutorial.sh").read_text() == SCRIPT
    subprocess.run(["git", "apply"], input=result["patch"], text=True, cwd=project.repo, check=True)
    assert (project.repo / "tutorial.sh").read_text() == build_script()
    assert {agent["state"] for agent in project.list_agents()} == {"STOPPED"}


def test_the_prompt_contains_the_help_and_only_the_requested_headings(project: MngrProgram) -> None:
    result = project(*WORDS, "--format", "json", "--", build_scenario(build_script())).parse_json()
    prompt = project.run_json("transcript", result["agent"])["transcript"][0]["text"]
    assert "usage: greet [--fail] WORD" in prompt
    assert "Undo" in prompt and "Lists" not in prompt


def test_the_agent_gets_a_message_about_wrong_changes(project: MngrProgram) -> None:
    words = (*WORDS, "--rounds", "2", "--format", "json", "--")
    result = project(
        *words, build_scenario(build_script().replace("greet hello", "greet hi"), build_script())
    ).parse_json()
    rows = project.run_json("transcript", result["agent"])["transcript"]
    messages = [row["text"] for row in rows if row["role"] == "user"]
    assert len(messages) == 2 and "tutorial.sh:8: this line was changed or removed: greet hello" in messages[1]
    assert len(result["proposals"]) == 2


def test_other_changes_are_reported_and_not_part_of_the_patch(project: MngrProgram) -> None:
    """The agent also edits below another block, below another heading and in another file.

    The heading may become the comment of the first block.
    """
    tail = "\n# by number\n\n# list them\ngreet 1"
    (project.repo / "tutorial.sh").write_text(SCRIPT + tail)
    run_git(project.repo, "commit", "-qam", "more")
    script = (
        build_script("greet olleh\n")
        .replace("##\n\ngreet", "##\ngreet")
        .replace("greet hello\n", "greet hello\n\n# two\ngreet two\n")
    )
    steps = [
        {"write": {"path": "README.md", "content": "x"}},
        *json.loads(build_scenario(f"{script}{tail}\ngreet 3\n")),
    ]
    result = project(*WORDS, "--rounds", "1", "--output", "fill.patch", "--", json.dumps(steps), code=1)
    assert "tutorial.sh:12: Undo: # Undo: works\n" in result.err
    assert "tutorial.sh:10: this line was added outside the empty headings: # two\n" in result.err
    assert "tutorial.sh:26: this line was added outside the empty headings: greet 3\n" in result.err
    assert "README.md was changed, but only tutorial.sh may be changed" in result.err
    assert "Error: the agent changed more than empty headings" in result.err
    run_git(project.repo, "apply", "fill.patch")
    expected = SCRIPT.replace(
        "# Undo\n##############################\n", "# Undo\n##############################\ngreet olleh\n"
    )
    assert (project.repo / "tutorial.sh").read_text() == expected + tail


def test_a_heading_on_the_last_line_can_be_filled(project: MngrProgram) -> None:
    for line_end in ("", "\r\n"):
        text = (SCRIPT + "\n# by number").replace("\n", line_end or "\n") + line_end
        (project.repo / "tutorial.sh").write_bytes(text.encode())
        run_git(project.repo, "commit", "-qam", "other ends")
        filled = text.rstrip() + "\n\n# three\ngreet 3\n"
        words = ("tutorial", "fill", "--agent", "player", "--section", "number", "--output", "fill.patch")
        project(*words, "--", build_scenario(filled))
        run_git(project.repo, "apply", "fill.patch")
        ending = line_end or "\n"
        expected = text.rstrip() + f"{ending}{ending}# three{ending}greet 3{ending}"
        assert (project.repo / "tutorial.sh").read_bytes().decode() == expected


def test_the_output_option_writes_the_patch_to_a_file(project: MngrProgram) -> None:
    result = project(*WORDS, "--output", "fill.patch", "--", build_scenario(build_script()))
    assert "Undo: # say it backwards: works" in result.err
    assert "Undo: # this fails: does not work: it exits with 3" in result.err
    assert result.out == "wrote fill.patch; apply it: git apply fill.patch\n"
    run_git(project.repo, "apply", "fill.patch")


def test_interactive_review_can_drop_edit_and_keep_blocks(project: MngrProgram) -> None:
    argv = [
        str(BIN_DIR / "mngr"),
        *WORDS,
        "--interactive",
        "--output",
        "fill.patch",
        "--",
        build_scenario(build_script()),
    ]
    env = {**project.env, "TERM": "xterm-256color", "EDITOR": "sed -i s/--fail/again/"}
    with PtyTerminal(argv, project.repo, env) as terminal:
        terminal.wait_for_text("[k]eep, [e]dit or [d]rop?", timeout=60)
        terminal.type("d\r")
        terminal.wait_for_text("does not work: it exits with 3")
        terminal.wait_for_text("[k]eep, [e]dit or [d]rop?")
        terminal.type("e\r")
        terminal.wait_for_text("changed by you; mngr did not run it")
        terminal.wait_for_text("[k]eep, [e]dit or [d]rop?")
        terminal.type("k\r")
        assert terminal.wait_for_exit() == 0
    run_git(project.repo, "apply", "fill.patch")
    assert (project.repo / "tutorial.sh").read_text() == build_script("# this fails\ngreet again\n")


def test_fill_rejects_bad_input(project: MngrProgram) -> None:
    assert "mechanic cannot write commands" in project("tutorial", "fill", "--agent", "mechanic", code=1).err
    assert "there is no empty heading" in project("tutorial", "fill", "--section", "nothing such").out
    assert "needs a terminal" in project("tutorial", "fill", "--interactive", code=2).err
    assert "is not an amount of money" in project("tutorial", "fill", "--budget", "much", code=2).err
    words = ("tutorial", "fill", "--agent", "player", "--program", "no-such-thing")
    assert "the program no-such-thing is not installed" in project(*words, code=1).err
    assert project.list_agents() == []
    result = project(*WORDS, "--rounds", "1", "--", "[]", code=1)
    assert "proposed no usable block" in result.err
