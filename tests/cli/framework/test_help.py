"""Tests of `mngr help` and `--help`."""

from __future__ import annotations

import importlib
import io
import re

import pytest

from mngr.base.model import STATES
from mngr.cli.framework.command_table import (
    ALIASES,
    COMMAND_GROUPS,
    COMMANDS,
    EVERYDAY_COMMANDS,
    HELP_SECTIONS,
    get_module_name,
)
from mngr.cli.framework.help import print_command
from mngr.cli.framework.topics import TOPICS
from mngr.plugins.loader import CODING_KINDS, KIND_MODULES
from tests.conftest import MngrProgram


def test_the_overview_fits_on_a_terminal_of_80_by_24(mngr: MngrProgram) -> None:
    out = mngr("--help").out
    assert mngr("help").out == out
    lines = out.splitlines()
    assert len(lines) < 24  # The prompt needs a line, too.
    assert max(map(len, lines)) <= 80
    assert "Start here: mngr create fix claude" in out
    assert all(f"\n  {name}" in out and COMMANDS[name][1] in out for name in EVERYDAY_COMMANDS)


def test_every_command_is_in_the_help_of_a_group_that_the_overview_names(mngr: MngrProgram) -> None:
    overview = mngr("--help").out
    texts = {section: mngr("help", section).out for section in HELP_SECTIONS}
    assert all(section in overview for section in HELP_SECTIONS)
    for name, (section, summary, _) in COMMANDS.items():
        assert f"\n  {name} " in texts[section] and summary in texts[section]
    assert all(text.partition("\nExplain")[0] in mngr("help", "all").out for text in texts.values())


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_fits_in_80_columns(name: str) -> None:
    stream = io.StringIO()
    print_command(importlib.import_module(get_module_name(name)).COMMAND, stream)
    before_examples, _, after = stream.getvalue().partition("\nExamples\n")
    lines = [*before_examples.splitlines(), *after.partition("\n\n")[2].splitlines()]
    assert [line for line in lines if len(line) > 80] == []


def test_the_help_of_create_starts_with_claude_code_and_lists_all_kinds(mngr: MngrProgram) -> None:
    out = mngr("help", "create").out
    first_example = out.partition("\nExamples\n")[2].splitlines()[1]
    assert first_example.startswith("  mngr create fix claude ")
    assert all(re.search(rf"\b{kind}\b", out) for kind in (*KIND_MODULES, *CODING_KINDS))


def test_the_options_of_a_run_are_in_groups_with_defaults_for_people(mngr: MngrProgram) -> None:
    out = mngr("tmr", "run", "--help").out
    headings = [line for line in out.splitlines() if line and not line.startswith(" ")]
    assert {"Tests", "Verification", "Agents", "Limits", "Integration", "Output", "Common options"} <= set(headings)
    assert "Stop an agent that works on its task for longer than TIME (default: 1h)" in " ".join(out.split())
    assert "(default: on; turn it off with --no-start)" in " ".join(mngr("help", "clone").out.split())
    assert not re.search(r"default: (True|False|None|\d+\.\d)", out)


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
    assert "did you mean" not in stderr and "states; all commands: mngr help all" in stderr


def test_an_unknown_command_suggests_the_closest_one(mngr: MngrProgram) -> None:
    result = mngr("destory", "foo", code=2)
    assert "mngr has no command 'destory'" in result.err
    assert "did you mean 'destroy'?" in result.err


def test_a_mistyped_command_of_a_group_offers_the_nearest_one(mngr: MngrProgram) -> None:
    assert "did you mean 'run'?" in mngr("tmr", "rum", code=2).err


def test_the_help_option_works_on_a_wrong_command_line(mngr: MngrProgram) -> None:
    assert mngr("list", "--nonsense", "--help").out.startswith("Usage: mngr list")


def test_help_works_with_broken_settings(mngr: MngrProgram) -> None:
    (mngr.repo / ".mngr").mkdir()
    (mngr.repo / ".mngr/settings.toml").write_text("[broken\n")
    assert mngr("--help").out == mngr("help").out != ""
    assert mngr("list", "--help").out.startswith("Usage: mngr list ")
    assert mngr("help", "states").out == TOPICS["states"]
    assert mngr("version").out.startswith("mngr ")
