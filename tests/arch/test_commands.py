"""Every command, hook and setting is declared, explained, documented and tested."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from mngr.agents.create.spec import AgentSpec
from mngr.base import config
from mngr.base.errors import UsageError
from mngr.base.model import AgentRecord
from mngr.cli.framework import completion_candidates
from mngr.cli.framework.command_spec import COMMON_OPTIONS, CommandSpec
from mngr.cli.framework.command_table import ALIASES, COMMAND_GROUPS, COMMANDS, HELP_SECTIONS, get_module_name
from mngr.cli.framework.parse import parse_words
from mngr.plugins import hooks as hookspecs
from tests.support.paths import ROOT

TESTS = sorted(ROOT.glob("tests/**/test_*.py"))


def get_command(name: str) -> CommandSpec:
    command: CommandSpec = importlib.import_module(get_module_name(name)).COMMAND
    return command


def command_lines(line: str) -> list[list[str]]:
    """Return the words after every `mngr` in a line of shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    calls: list[list[str]] = []
    is_in_call = False
    for word in lexer:
        if set(word) <= set("();<>|&"):
            is_in_call = False
        elif is_in_call:
            calls[-1].append(word)
        elif word == "mngr":
            calls.append([])
            is_in_call = True
    return calls


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_matches_the_command_table(name: str) -> None:
    command = get_command(name)
    section, summary, _ = COMMANDS[name]
    assert (command.name, command.summary) == (name, summary)
    assert section in HELP_SECTIONS
    assert callable(importlib.import_module(get_module_name(name)).run)
    assert name.split(maxsplit=1)[0] in COMMAND_GROUPS or " " not in name


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_of_a_command_can_be_parsed(name: str) -> None:
    command = get_command(name)
    assert any(f"mngr {name}" in line for line, _ in command.examples)
    for line, description in command.examples:
        assert description
        for words in command_lines(line):
            first_two = " ".join(words[:2])
            called = first_two if first_two in COMMANDS else ALIASES.get(words[0], words[0])
            try:
                parse_words(get_command(called), words[len(called.split()) :])
            except UsageError as error:
                pytest.fail(f"{line}: {error}")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_options_of_a_command_have_unique_flags_and_keys(name: str) -> None:
    command = get_command(name)
    flags = [flag for option in (*command.options, *COMMON_OPTIONS) for flag in option.flags]
    assert len(flags) == len(set(flags))
    keys = [option.key for option in (*command.options, *COMMON_OPTIONS)] + [
        argument.key for argument in command.arguments
    ]
    assert len(keys) == len(set(keys))
    assert all(option.help and not option.help.endswith(".") for option in command.options)
    sources = [option.complete for option in command.options] + [argument.complete for argument in command.arguments]
    assert {source for source in sources if source} <= {*completion_candidates._CANDIDATE_SOURCES, "files"}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_a_test_file(name: str) -> None:
    test_files = [
        path
        for path in TESTS
        if path.stem in (f"test_{name.split(maxsplit=1)[0]}", f"test_{re.sub('[ -]', '_', name)}")
    ]
    assert test_files, f"no test file is called test_{name.split(maxsplit=1)[0]}.py"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_reads_every_option_it_declares(name: str) -> None:
    """An option that mngr parses and ignores would mislead the user."""
    command = get_command(name)
    source = Path(str(importlib.import_module(get_module_name(name)).__file__)).read_text()
    shared = "".join(
        (ROOT / f"src/mngr/cli/{name}.py").read_text()
        for name in ("settings/config_shared", "tutorial/sync", "runs/run_options")
    )
    reads_fields = "collect_fields(COMMAND)" in source
    for option in command.options:
        is_read_as_field = reads_fields and option.field is not None
        assert is_read_as_field or f'"{option.key}"' in source + shared, option.flags


def test_create_uses_every_field_of_an_agent_spec() -> None:
    """A field that `create` ignores would mislead the user, as an option would."""
    source = "".join(path.read_text() for path in (ROOT / "src/mngr/agents/create").glob("*.py"))
    fields = [field for field in AgentSpec._fields if field not in AgentRecord._fields]
    assert [field for field in fields if f"spec.{field}" not in source] == []


def test_aliases_name_existing_commands() -> None:
    assert set(ALIASES.values()) <= set(COMMANDS)
    assert not set(ALIASES) & set(COMMANDS)


def test_every_hook_and_setting_is_documented() -> None:
    hooks = (ROOT / "docs/reference/hooks.md").read_text()
    assert [name for name in vars(hookspecs) if name.startswith("mngr_") and f"## {name}\n" not in hooks] == []
    settings = (ROOT / "docs/reference/settings.md").read_text()
    assert [key for key in config.SCHEMA if f"`{key}`" not in settings] == []


def test_the_reference_and_the_man_pages_are_current(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "scripts/reference.py", tmp_path], check=True)
    stale = []
    for folder in ("reference", "reference/schemas", "man"):
        generated = {path.name: path.read_text() for path in (tmp_path / folder).iterdir() if path.is_file()}
        committed = {path.name: path.read_text() for path in (ROOT / "docs" / folder).iterdir() if path.is_file()}
        stale += [
            f"docs/{folder}/{name}" for name in {*generated, *committed} if generated.get(name) != committed.get(name)
        ]
    assert sorted(stale) == [], "run: make docs"
