"""`mngr help` and `--help` from outside."""

from __future__ import annotations

import pytest

from mngr.base.model import STATES
from mngr.cli.framework.command_table import ALIASES, COMMAND_GROUPS, COMMANDS
from mngr.cli.framework.topics import TOPICS
from tests.conftest import MngrProgram


def test_the_overview_names_every_command(mngr: MngrProgram) -> None:
    out = mngr("--help").out
    assert mngr("help").out == out
    for name, (_, summary, _) in COMMANDS.items():
        assert f"  {name}" in out
        assert summary in out


def test_without_a_command_the_overview_is_an_error(mngr: MngrProgram) -> None:
    ran = mngr(code=2)
    assert ran.out == ""
    assert "Usage: mngr COMMAND" in ran.err


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("help",)][::6])
def test_a_command_is_explained_the_same_both_ways(mngr: MngrProgram, name: str) -> None:
    out = mngr(*name.split(), "--help").out
    assert mngr("help", *name.split()).out == out
    assert out.startswith(f"Usage: mngr {name}")
    assert "Examples\n" in out


def test_an_alias_is_explained_as_its_command(mngr: MngrProgram) -> None:
    for alias, name in ALIASES.items():
        assert mngr(alias, "--help").out.startswith(f"Usage: mngr {name} ")


@pytest.mark.parametrize("group", COMMAND_GROUPS)
def test_a_group_lists_its_commands(mngr: MngrProgram, group: str) -> None:
    out = mngr("help", group).out
    assert mngr(group, "--help").out == out
    assert out.startswith(f"Usage: mngr {group} COMMAND")
    for name in (name for name in COMMANDS if name.startswith(group + " ")):
        assert f"\n  mngr {name} " in out.partition("\nExamples\n")[0]
        assert f"\n  mngr {name}" in out.partition("\nExamples")[2]
    assert "one of: " in mngr(group, code=2).err


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_is_explained(mngr: MngrProgram, topic: str) -> None:
    assert mngr("help", topic).out == TOPICS[topic]


def test_the_topics_say_all_there_is(mngr: MngrProgram) -> None:
    assert all(f"\n  {state} " in "\n" + TOPICS["states"] for state in STATES)
    assert all(f" {code}  " in TOPICS["exit-codes"] for code in (0, 1, 2, 3, 4, 5, 6, 130))
    assert all(topic in mngr("help", "help").out for topic in TOPICS)


def test_the_examples_of_filters_are_filters(mngr: MngrProgram) -> None:
    lines = [line.strip() for line in TOPICS["filters"].splitlines() if line.strip().startswith("mngr list --filter")]
    assert lines
    mngr("create", "w", "--count", "2", "--label", "team=red", "--", "sleep", "1000")
    for line in lines:
        found = mngr.run_json("list", "--filter", line.partition("'")[2].rstrip("'"))["agents"]
        assert sorted(agent["name"] for agent in found) == ["w-1", "w-2"]  # made side by side


def test_an_unknown_topic_names_the_nearest(mngr: MngrProgram) -> None:
    assert "did you mean 'states'?" in mngr("help", "statez", code=2).err
    said = mngr("help", "weather", code=2).err  # there is none
    assert "did you mean" not in said and "states; commands: mngr help" in said


def test_an_unknown_command_names_the_nearest(mngr: MngrProgram) -> None:
    ran = mngr("destory", "foo", code=2)
    assert "mngr has no command 'destory'" in ran.err
    assert "did you mean 'destroy'?" in ran.err


def test_help_wins_over_a_wrong_command_line(mngr: MngrProgram) -> None:
    assert mngr("list", "--nonsense", "--help").out.startswith("Usage: mngr list")


def test_help_needs_no_good_settings(mngr: MngrProgram) -> None:
    (mngr.repo / ".mngr").mkdir()
    (mngr.repo / ".mngr/settings.toml").write_text("[broken\n")
    assert mngr("--help").out == mngr("help").out != ""
    assert mngr("list", "--help").out.startswith("Usage: mngr list ")
    assert mngr("help", "states").out == TOPICS["states"]
    assert mngr("version").out.startswith("mngr ")
