"""What a command is given, and how it is run."""

from __future__ import annotations

import os
import sys

from mngr import shell
from mngr.cli.parse import Args, parse
from mngr.errors import MngrError, PartialFailure, UsageError
from mngr.ops.context import Context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType
    from typing import Any

    from mngr.cli.spec import Command
    from mngr.fleet import Fleet
    from mngr.model import Outcome


class Cli:
    """One command line: its words, the context it implies, and the way it speaks."""

    chosen: str | None = None  # the format of the last one that could be read, for errors

    def __init__(self, name: str, words: list[str]) -> None:
        Cli.chosen = None
        self.name = name
        self.words = words
        self.quiet = False
        self.format = "human"
        self._home = _peek(words, "--home")
        self.assignments = [v for flag in ("-S", "--set") for v in _peek_all(words, flag)]
        self._context: Context | None = None

    @property
    def context(self) -> Context:
        """The home and settings this command line asks for."""
        if self._context is None:
            self._context = Context(self._home, settings=self.assignments, note=self.say)
        return self._context

    @property
    def fleet(self) -> Fleet:
        """The same operations as Python code has."""
        from mngr.fleet import Fleet

        return Fleet(context=self.context)

    def say(self, text: str) -> None:
        """A line for the person, never data."""
        if not self.quiet:
            from mngr.cli.render import clean

            print(clean(text), file=sys.stderr)

    def ask(self, text: str, *, otherwise: bool = True) -> bool:
        """What the person at the terminal answers; `otherwise` when that is an empty line."""
        print(f"{text} [{'Y/n' if otherwise else 'y/N'}]", file=sys.stderr)
        try:
            said = input().strip().lower()
        except EOFError:
            return False
        return said in ("y", "yes") if said else otherwise

    def out(self, text: str) -> None:
        """Data."""
        sys.stdout.write(text if text.endswith("\n") or not text else text + "\n")

    def results(self, outcomes: Sequence[Outcome], *, human: Any = None) -> int:
        """Show what became of several targets; the exit code that follows."""
        from mngr.cli import render

        return render.results(self, outcomes, human)


def execute(cli: Cli, module: ModuleType) -> int:
    """Parse, run, and turn what the command returns into an exit code."""
    command = module.COMMAND
    wants_help = any(word in ("-h", "--help") for word in _before_rest(cli.words))
    if wants_help:
        from mngr.cli.help import print_command

        print_command(command, sys.stdout)
        return 0
    args = parse(command, cli.words, _defaults(cli, command))
    cli.quiet, cli.format = args["quiet"], args["format"]
    Cli.chosen = cli.format
    if args["verbose"]:
        shell.tracer = cli.say
    if cli.format not in command.formats:
        _check_format(cli.format)
    try:
        return int(module.run(cli, args) or 0)
    finally:
        if cli._context is not None:
            cli._context.close()


def _defaults(cli: Cli, command: Command) -> dict[str, Any]:
    try:
        found = cli.context.settings.table(f"commands.{command.name.replace(' ', '.')}")
        if command.name != "tmr run":
            return found
        every = {**cli.context.settings.table("tmr"), **found}
        return {key: value for key, value in every.items() if key != "merge_tool"}
    except MngrError:
        if not command.mends:
            raise
        return {}


def names_of(args: Args, key: str = "name") -> list[str]:
    """The names given, with `-` replaced by those on standard input."""
    given: list[str] = args[key]
    if "-" not in given:
        return list(dict.fromkeys(given))
    read = [line.strip() for line in sys.stdin.read().split("\n") if line.strip()]
    found = [n for name in given for n in (read if name == "-" else [name])]
    if not found:
        raise UsageError("standard input names no agent", "for example: mngr list --ids | mngr stop -")
    return list(dict.fromkeys(found))


def raise_if_alone(outcomes: Sequence[Outcome]) -> None:
    """With one target its failure is the command's failure."""
    failed = [outcome for outcome in outcomes if not outcome.ok]
    if len(outcomes) == 1 and failed:
        error = MngrError(failed[0].error or "failed", failed[0].hint)
        error.exit_code = failed[0].exit_code or 1
        raise error


def code_of(outcomes: Sequence[Outcome]) -> int:
    """0, or 4 when some of several failed."""
    return 0 if all(outcome.ok for outcome in outcomes) else PartialFailure.exit_code


def is_terminal() -> bool:
    """Whether a person is at both ends."""
    return (
        sys.stdin is not None
        and sys.stdin.isatty()
        and sys.stdout.isatty()
        and os.environ.get("TERM", "dumb") != "dumb"
    )


def _check_format(text: str) -> None:
    if text in ("human", "json", "jsonl"):
        return
    from mngr.cli.render import fields

    if fields(text):
        return
    raise UsageError(
        f"--format cannot be {text!r}", "human, json, jsonl, or a template such as '{name} {state}'"
    )


def _before_rest(words: list[str]) -> list[str]:
    return words[: words.index("--")] if "--" in words else words


def _peek_all(words: list[str], flag: str) -> list[str]:
    found = []
    words = _before_rest(words)
    for at, word in enumerate(words):
        if word == flag and at + 1 < len(words):
            found.append(words[at + 1])
        elif word.startswith(flag + "="):
            found.append(word[len(flag) + 1 :])
        elif flag == "-S" and word.startswith("-S") and len(word) > 2:
            found.append(word[2:])
    return found


def _peek(words: list[str], flag: str) -> str | None:
    found = _peek_all(words, flag)
    return found[-1] if found else None
