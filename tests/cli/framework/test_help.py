"""Tests of `mngr help` and `--help`."""

from __future__ import annotations

import pytest

from mngr.base.model import STATES
from mngr.cli.framework.command_table import ALIASES, COMMAND_GROUPS, COMMANDS
from mngr.cli.framework.topics import TOPICS
from tests.conftest import MngrProgram


def test_the_overview_lists_every_command(mngr: MngrProgram) -> None:
    out = mngr("--help").out
    assert mngr("help").out == out
    for name, (_, summary, _) in COMMANDS.items():
        assert f"  {name}" in out
        assert summary in out


def test_mngr_without_a_command_prints_the_overview_as_an_error(mngr: MngrProgram) -> None:
    result = mngr(code=2)
    assert result.out == ""
    assert "Usage: mngr COMMAND" in result.err


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("help",)][::6])
def test_help_command_and_the_help_option_print_the_same(mngr: MngrProgram, name: str) -> None:
    out = mngr(*name.split(), "--help").out
    assert mngr("help", *name.split()).out == out
    assert out.startswith(f"Usage: mngr {name}")
    assert "Examples\n" in out


def test_help_of_an_alias_is_the_help_of_its_command(mngr: MngrProgram) -> None:
    for alias, name in ALIASES.items():
        assert mngr(alias, "--help").out.startswith(f"Usage: mngr {name} ")


@pytest.mark.parametrize("group", COMMAND_GROUPS)
def test_help_of_a_group_lists_its_commands_and_examples(mngr: MngrProgram, group: str) -> None:
    out = mngr("help", group).out
    assert mngr(group, "--help").out == out
    assert out.startswith(f"Usage: mngr {group} COMMAND")
    for name in (name for name in COMMANDS if name.startswith(group + " ")):
        assert f"\n  mngr {name} " in out.partition("\nExamples\n")[0]
        assert f"\n  mngr {name}" in out.partition("\nExamples")[2]
    assert "one of: " in mngr(group, code=2).err


@pytest.mark.parametrize("topic", TOPICS)
def test_help_prints_each_topic(mngr: MngrProgram, topic: str) -> None:
    assert mngr("help", topic).out == TOPICS[topic]


def test_the_topics_list_all_states_and_exit_codes(mngr: MngrProgram) -> None:
    assert all(f"\n  {state} " in "\n" + TOPICS["states"] for state in STATES)
    assert all(f" {code}  " in TOPICS["exit-codes"] for code in (0, 1, 2, 3, 4, 5, 6, 130))
    assert all(topic in mngr("help", "help").out for topic in TOPICS)


def test_the_filter_examples_work(mngr: MngrProgram) -> None:
    lines = [line.strip() for line in TOPICS["filters"].splitlines() if line.strip().startswith("mngr list --filter")]
    assert lines
    mngr("create", "w", "--count", "2", "--label", "team=red", "--", "sleep", "1000")
    for line in lines:
        agents = mngr.run_json("list", "--filter", line.partition("'")[2].rstrip("'"))["agents"]
        assert sorted(agent["name"] for agent in agents) == [
            "w-1",
            "w-2",
        ]  # The order of parallel creation is not fixed.


def test_an_unknown_topic_suggests_the_closest_one(mngr: MngrProgram) -> None:
    assert "did you mean 'states'?" in mngr("help", "statez", code=2).err
    stderr = mngr("help", "weather", code=2).err  # No topic is close.
    assert "did you mean" not in stderr and "states; commands: mngr help" in stderr


def test_an_unknown_command_suggests_the_closest_one(mngr: MngrProgram) -> None:
    result = mngr("destory", "foo", code=2)
    assert "mngr has no command 'destory'" in result.err
    assert "did you mean 'destroy'?" in result.err


def test_the_help_option_works_on_a_wrong_command_line(mngr: MngrProgram) -> None:
    assert mngr("list", "--nonsense", "--help").out.startswith("Usage: mngr list")


def test_help_works_with_broken_settings(mngr: MngrProgram) -> None:
    (mngr.repo / ".mngr").mkdir()
    (mngr.repo / ".mngr/settings.toml").write_text("[broken\n")
    assert mngr("--help").out == mngr("help").out != ""
    assert mngr("list", "--help").out.startswith("Usage: mngr list ")
    assert mngr("help", "states").out == TOPICS["states"]
    assert mngr("version").out.startswith("mngr ")
