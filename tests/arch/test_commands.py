"""Every command, hook and setting is declared, explained, documented and tested."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from mngr.base import config
from mngr.base.errors import UsageError
from mngr.cli.framework import completion_candidates
from mngr.cli.framework.command_table import ALIASES, COMMAND_GROUPS, COMMANDS, HELP_SECTIONS, get_module_name
from mngr.cli.framework.parse import parse_words
from mngr.cli.framework.spec import COMMON_OPTIONS, CommandSpec
from mngr.plugins import hooks as hookspecs
from tests.support.paths import ROOT

TESTS = sorted(ROOT.glob("tests/**/test_*.py"))


def declared(name: str) -> CommandSpec:
    command: CommandSpec = importlib.import_module(get_module_name(name)).COMMAND
    return command


def command_lines(line: str) -> list[list[str]]:
    """The words after every `mngr` in a line of shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    found: list[list[str]] = []
    inside = False
    for word in lexer:
        if set(word) <= set("();<>|&"):
            inside = False
        elif inside:
            found[-1].append(word)
        elif word == "mngr":
            found.append([])
            inside = True
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_what_the_table_says(name: str) -> None:
    command = declared(name)
    section, summary, _ = COMMANDS[name]
    assert (command.name, command.summary) == (name, summary)
    assert section in HELP_SECTIONS
    assert callable(importlib.import_module(get_module_name(name)).run)
    assert name.split(maxsplit=1)[0] in COMMAND_GROUPS or " " not in name


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_examples_that_its_parser_takes(name: str) -> None:
    command = declared(name)
    assert any(f"mngr {name}" in line for line, _ in command.examples)
    for line, what in command.examples:
        assert what
        for words in command_lines(line):
            two = " ".join(words[:2])
            called = two if two in COMMANDS else ALIASES.get(words[0], words[0])
            try:
                parse_words(declared(called), words[len(called.split()) :])
            except UsageError as error:
                pytest.fail(f"{line}: {error}")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_options_of_a_command_do_not_collide(name: str) -> None:
    command = declared(name)
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
def test_a_command_is_tested(name: str) -> None:
    found = [
        path
        for path in TESTS
        if path.stem in (f"test_{name.split(maxsplit=1)[0]}", f"test_{re.sub('[ -]', '_', name)}")
    ]
    assert found, f"no test file is called test_{name.split(maxsplit=1)[0]}.py"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_reads_every_option_it_declares(name: str) -> None:
    """An option that parses and does nothing would be a lie."""
    command = declared(name)
    source = Path(str(importlib.import_module(get_module_name(name)).__file__)).read_text()
    shared = "".join(
        (ROOT / f"src/mngr/cli/{name}.py").read_text()
        for name in ("settings/scopes", "tutorial/sync", "runs/run_options")
    )
    for option in command.options:
        assert f'"{option.key}"' in source + shared, option.flags


def test_aliases_stand_for_commands() -> None:
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
    for place in ("reference", "man"):
        made = {path.name: path.read_text() for path in (tmp_path / place).iterdir()}
        kept = {path.name: path.read_text() for path in (ROOT / "docs" / place).iterdir()}
        stale += [f"docs/{place}/{name}" for name in {*made, *kept} if made.get(name) != kept.get(name)]
    assert sorted(stale) == [], "run: make docs"
