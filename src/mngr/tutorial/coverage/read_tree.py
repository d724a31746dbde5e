"""Reads the commands and options of a program from its help or its completion."""

from __future__ import annotations

import tempfile

from mngr.base.errors import MngrError
from mngr.tutorial.coverage.completions import read_completion
from mngr.tutorial.coverage.help_text_reader import (
    SETUP_COMMANDS,
    CommandTree,
    HelpRunner,
    drop_inherited_options,
    get_program,
    read_help,
)


def read_tree(program: list[str], root: str, source: str = "help") -> CommandTree:
    """Return the commands of a program on PATH or in the project's `.venv`. Raise MngrError when it is not installed."""
    executable = get_program(program[0], root)
    with tempfile.TemporaryDirectory(prefix="mngr-") as directory:
        runner = HelpRunner([executable, *program[1:]], directory)
        if runner.name in SETUP_COMMANDS:
            runner.run_program([*runner.program, *SETUP_COMMANDS[runner.name]])
        commands = read_completion(runner) if source == "completion" else read_help(runner)
    if not any(command.options or command.words for command in commands):
        messages = [problem.message for problem in runner.problems if not problem.line]
        raise MngrError(
            (messages or [f"the {source} of {program[0]} lists neither commands nor options"])[0],
            "try the other source: mngr tutorial coverage --source "
            + ("help" if source == "completion" else "completion"),
        )
    return CommandTree(program=program, commands=drop_inherited_options(commands), problems=runner.problems)
