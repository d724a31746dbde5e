"""The commands and options of a program, from its help or from its completion."""

from __future__ import annotations

import tempfile

from mngr.base.errors import MngrError
from mngr.tutorial.coverage.command_tree import (
    SETUP_COMMANDS,
    CommandTree,
    HelpRunner,
    drop_inherited_options,
    get_program,
    read_help,
)
from mngr.tutorial.coverage.completions import read_completion


def read_tree(program: list[str], root: str, source: str = "help") -> CommandTree:
    """The commands of a program that is on PATH or in the project's `.venv`; raises MngrError when it is nowhere."""
    found = get_program(program[0], root)
    with tempfile.TemporaryDirectory(prefix="mngr-") as place:
        asker = HelpRunner([found, *program[1:]], place)
        if asker.name in SETUP_COMMANDS:
            asker.run_program([*asker.program, *SETUP_COMMANDS[asker.name]])
        commands = read_completion(asker) if source == "completion" else read_help(asker)
    if not any(command.options or command.words for command in commands):
        said = [problem.message for problem in asker.problems if not problem.line]
        raise MngrError(
            (said or [f"{program[0]} does not tell its commands and options by {source}"])[0],
            "try the other one: --source " + ("help" if source == "completion" else "completion"),
        )
    return CommandTree(program=program, commands=drop_inherited_options(commands), problems=asker.problems)
