"""`mngr tutorial coverage` from outside."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MngrProgram

PROGRAM = """#!/bin/sh
case "$1" in
list) printf 'Usage: app list\\n\\nOptions\\n  -a, --all   everything\\n      --json  for programs\\n  -q, --quiet  be so\\n' ;;
rm) printf 'Usage: app rm\\n\\nOptions\\n  -f, --force  really\\n' ;;
*) printf 'Usage: app COMMAND\\n\\nCommands:\\n  list, ls   show\\n  rm         take away\\n  new        make\\n\\nOptions\\n  -q, --quiet  be so\\n' ;;
esac
"""
SCRIPT = "# see all\napp ls --all\n\n# take one away\napp -q rm x\n"
TESTS = """\
def test_list(e2e):
    e2e.write_tutorial_block("# see all\\napp ls --all")

def test_rm(e2e):
    e2e.write_tutorial_block("# take one away\\napp -q rm x")

def test_other(e2e):
    pass
"""


@pytest.fixture
def project(mngr: MngrProgram) -> Path:
    files = {"tutorial.sh": SCRIPT, "tests/test_it.py": TESTS, "app": PROGRAM}
    for name, text in files.items():
        (mngr.repo / name).parent.mkdir(exist_ok=True)
        (mngr.repo / name).write_text(text)
    (mngr.repo / "app").chmod(0o755)
    mngr("config", "set", "--project", "project.program", "./app")
    return mngr.repo


def leave(project: Path, run: str, test: str, transcript: str, **about: Any) -> None:
    place = project / ".mngr/e2e" / run / test
    place.mkdir(parents=True)
    (place / "transcript.txt").write_text(transcript)
    (place / "meta.json").write_text(json.dumps({"v": 1, "test": f"tests/test_it.py::{test}", **about}))


def test_what_is_shown_and_what_is_run(mngr: MngrProgram, project: Path) -> None:
    leave(project, "1", "test_list", "$ app new\n? 0\n")
    os.utime(project / ".mngr/e2e/1", (1, 1))
    leave(
        project,
        "2",
        "test_list",
        "# see\n$ app ls \\\n$   --json\n  {}\n? 0\n$ app list nothing\n! no\n? 1\n",
    )
    leave(project, "2", "test_rm[x]", "$ app rm -fq x\n  $ app new\n? 0\n")
    leave(project, "2", "test_other", "$ app new\n? 1\n")
    told = mngr.run_json("tutorial", "coverage")
    assert (told["program"], told["run"], told["problems"]) == ("./app", "2", [])
    rows = {one["command"].removeprefix("./app").strip(): one for one in told["commands"]}
    assert {name: (len(one["shown"]), one["run"]) for name, one in rows.items()} == {
        "": (0, []),
        "list": (1, ["tests/test_it.py::test_list"]),
        "rm": (1, ["tests/test_it.py::test_rm"]),
        "new": (0, []),
    }
    options = {
        option["flags"][-1]: (option["shown"], option["run"]) for one in rows.values() for option in one["options"]
    }
    assert options == {
        "--quiet": (True, True),
        "--all": (True, False),
        "--json": (False, True),
        "--force": (False, True),
    }
    assert [(block["slug"], block["unhappy"]) for block in told["blocks"]] == [
        ("see-all", True),
        ("take-one-away", False),
    ]
    assert told["counts"] == {
        "commands": 3, "commands_shown": 2, "commands_run": 2, "options": 4, "options_shown": 2, "options_run": 3,
        "blocks": 2, "blocks_unhappy": 1,
    }  # fmt: skip
    assert mngr("tutorial", "coverage").out.splitlines() == [
        "COMMAND     SHOWN  RUN  OPTIONS  SHOWN  RUN  NEITHER",
        "./app                   1        1      1",
        "./app list  yes    yes  2        1      1",
        "./app rm    yes    yes  1        0      1",
        "./app new   no     no",
        "no unhappy path: line 4, take-one-away",
        "2 of 3 commands are shown, 2 are run; 2 of 4 options are shown, 3 are run; 1 of 2 blocks have an unhappy path",
    ]


def test_a_test_may_say_by_itself_which_block_it_is_about(mngr: MngrProgram, project: Path) -> None:
    ids = [block["id"] for block in mngr.run_json("tutorial", "blocks")["blocks"]]
    leave(project, "1", "test_a", "$ app new\n? 2\n", blocks=[ids[1]])
    leave(project, "1", "test_b", "$ app list\n? 0\n", blocks=["  # see all\n  app ls --all"])
    told = mngr.run_json("tutorial", "coverage")
    assert {one["command"]: bool(one["run"]) for one in told["commands"]} == {
        "./app": False, "./app list": True, "./app rm": False, "./app new": True,
    }  # fmt: skip
    assert [block["unhappy"] for block in told["blocks"]] == [False, True]


def test_what_does_not_answer_is_named_and_the_rest_goes_on(mngr: MngrProgram, project: Path) -> None:
    leave(project, "1", "test_list", "$ app list\n? 3\n")
    (project / ".mngr/e2e/1/broken").mkdir()
    (project / ".mngr/e2e/1/broken/transcript.txt").write_text("$ app new\n")
    (project / ".mngr/e2e/1/broken/meta.json").write_text("{")
    done = mngr("tutorial", "coverage", "--program", "no-such-thing", "--format", "json", code=1)
    assert [block["unhappy"] for block in done.parse_json()["blocks"]] == [True, False]
    assert [problem["path"] for problem in done.parse_json()["problems"]] == [
        ".mngr/e2e/1/broken",
        "no-such-thing",
    ]
    assert "no-such-thing: the program no-such-thing is not installed" in done.err


def test_without_a_run_or_a_program(mngr: MngrProgram, project: Path) -> None:
    assert "there is no transcript in .mngr/e2e" in mngr("tutorial", "coverage").err
    mngr("config", "unset", "--project", "project.program")
    done = mngr("tutorial", "coverage", code=2)
    assert done.err.startswith("Error: which program the tutorial is about is not known\nHint: --program NAME")
    assert "--source" in mngr("tutorial", "coverage", "--source", "guess", code=2).err


def test_our_own_commands_are_all_known(mngr: MngrProgram, project: Path) -> None:
    from mngr.cli.framework.command_table import COMMANDS

    told = mngr.run_json("tutorial", "coverage", "--program", "mngr")
    assert {f"mngr {name}" for name in COMMANDS} == {one["command"] for one in told["commands"]} - {"mngr"}
