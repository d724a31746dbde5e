"""Tests of `mngr tutorial coverage`."""

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


def write_artifacts(project: Path, run: str, test: str, transcript: str, **meta: Any) -> None:
    directory = project / ".mngr/e2e" / run / test
    directory.mkdir(parents=True)
    (directory / "transcript.txt").write_text(transcript)
    (directory / "meta.json").write_text(json.dumps({"v": 1, "test": f"tests/test_it.py::{test}", **meta}))


def test_coverage_counts_shown_and_run_commands_and_options(mngr: MngrProgram, project: Path) -> None:
    write_artifacts(project, "1", "test_list", "$ app new\n? 0\n")
    os.utime(project / ".mngr/e2e/1", (1, 1))
    write_artifacts(
        project,
        "2",
        "test_list",
        "# see\n$ app ls \\\n$   --json\n  {}\n? 0\n$ app list nothing\n! no\n? 1\n",
    )
    write_artifacts(project, "2", "test_rm[x]", "$ app rm -fq x\n  $ app new\n? 0\n")
    write_artifacts(project, "2", "test_other", "$ app new\n? 1\n")
    report = mngr.run_json("tutorial", "coverage")
    assert (report["program"], report["run"], report["problems"]) == ("./app", "2", [])
    rows = {row["command"].removeprefix("./app").strip(): row for row in report["commands"]}
    assert {name: (len(row["shown"]), row["run"]) for name, row in rows.items()} == {
        "": (0, []),
        "list": (1, ["tests/test_it.py::test_list"]),
        "rm": (1, ["tests/test_it.py::test_rm"]),
        "new": (0, []),
    }
    options = {
        option["flags"][-1]: (option["shown"], option["run"]) for row in rows.values() for option in row["options"]
    }
    assert options == {
        "--quiet": (True, True),
        "--all": (True, False),
        "--json": (False, True),
        "--force": (False, True),
    }
    assert [(block["slug"], block["unhappy"]) for block in report["blocks"]] == [
        ("see-all", True),
        ("take-one-away", False),
    ]
    assert report["counts"] == {
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


def test_the_artifacts_of_a_test_can_name_its_block(mngr: MngrProgram, project: Path) -> None:
    ids = [block["id"] for block in mngr.run_json("tutorial", "blocks")["blocks"]]
    write_artifacts(project, "1", "test_a", "$ app new\n? 2\n", blocks=[ids[1]])
    write_artifacts(project, "1", "test_b", "$ app list\n? 0\n", blocks=["  # see all\n  app ls --all"])
    report = mngr.run_json("tutorial", "coverage")
    assert {row["command"]: bool(row["run"]) for row in report["commands"]} == {
        "./app": False, "./app list": True, "./app rm": False, "./app new": True,
    }  # fmt: skip
    assert [block["unhappy"] for block in report["blocks"]] == [False, True]


def test_a_missing_program_and_broken_artifacts_are_named_and_the_rest_is_measured(
    mngr: MngrProgram, project: Path
) -> None:
    write_artifacts(project, "1", "test_list", "$ app list\n? 3\n")
    (project / ".mngr/e2e/1/broken").mkdir()
    (project / ".mngr/e2e/1/broken/transcript.txt").write_text("$ app new\n")
    (project / ".mngr/e2e/1/broken/meta.json").write_text("{")
    result = mngr("tutorial", "coverage", "--program", "no-such-thing", "--format", "json", code=1)
    assert [block["unhappy"] for block in result.parse_json()["blocks"]] == [True, False]
    assert [problem["path"] for problem in result.parse_json()["problems"]] == [
        ".mngr/e2e/1/broken",
        "no-such-thing",
    ]
    assert "no-such-thing: the program no-such-thing is not installed" in result.err


def test_coverage_without_a_run_or_a_program_gives_a_hint(mngr: MngrProgram, project: Path) -> None:
    assert "there is no transcript in .mngr/e2e" in mngr("tutorial", "coverage").err
    mngr("config", "unset", "--project", "project.program")
    result = mngr("tutorial", "coverage", code=2)
    assert result.err.startswith(
        "Error: mngr does not know which program the tutorial is about\nHint: name it: mngr tutorial coverage --program NAME"
    )
    assert "--source" in mngr("tutorial", "coverage", "--source", "guess", code=2).err


def test_coverage_of_mngr_knows_all_its_commands(mngr: MngrProgram, project: Path) -> None:
    from mngr.cli.framework.command_table import COMMANDS

    report = mngr.run_json("tutorial", "coverage", "--program", "mngr")
    assert {f"mngr {name}" for name in COMMANDS} == {row["command"] for row in report["commands"]} - {"mngr"}
