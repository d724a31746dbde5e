"""One command line: its words, the context it implies, and the way it speaks."""

from __future__ import annotations

import sys

from mngr.agents.context import Context
from mngr.base.errors import MngrError, PartialFailure
from mngr.cli.framework.terminal_text import strip_controls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mngr.api import Fleet
    from mngr.base.model import Outcome


class Cli:
    """One command line: its words, the context it implies, and the way it speaks."""

    last_format: str | None = None  # the format of the last one that could be read, for errors

    def __init__(self, name: str, words: list[str]) -> None:
        Cli.last_format = None
        self.name = name
        self.words = words
        self.quiet = False
        self.format = "human"
        self._home = _find_flag_value(words, "--home")
        self.assignments = [v for flag in ("-S", "--set") for v in _find_flag_values(words, flag)]
        self._context: Context | None = None

    @property
    def context(self) -> Context:
        """The home and settings this command line asks for."""
        if self._context is None:
            self._context = Context(self._home, settings=self.assignments, note=self.print_message)
        return self._context

    @property
    def fleet(self) -> Fleet:
        """The same operations as Python code has."""
        from mngr.api import Fleet

        return Fleet(context=self.context)

    def print_message(self, text: str) -> None:
        """A line for the person, never data."""
        if not self.quiet:
            print(strip_controls(text), file=sys.stderr)

    def ask_yes_no(self, text: str, *, otherwise: bool = True) -> bool:
        """Ask the person at the terminal; an empty line means `otherwise`."""
        print(f"{text} [{'Y/n' if otherwise else 'y/N'}]", file=sys.stderr)
        try:
            said = input().strip().lower()
        except EOFError:
            return False
        return said in ("y", "yes") if said else otherwise

    def print_data(self, text: str) -> None:
        """Data."""
        sys.stdout.write(text if text.endswith("\n") or not text else text + "\n")


def words_before_separator(words: list[str]) -> list[str]:
    return words[: words.index("--")] if "--" in words else words


def _find_flag_values(words: list[str], flag: str) -> list[str]:
    found = []
    words = words_before_separator(words)
    for at, word in enumerate(words):
        if word == flag and at + 1 < len(words):
            found.append(words[at + 1])
        elif word.startswith(flag + "="):
            found.append(word[len(flag) + 1 :])
        elif flag == "-S" and word.startswith("-S") and len(word) > 2:
            found.append(word[2:])
    return found


def _find_flag_value(words: list[str], flag: str) -> str | None:
    found = _find_flag_values(words, flag)
    return found[-1] if found else None


def raise_single_failure(outcomes: Sequence[Outcome]) -> None:
    """With one target its failure is the command's failure."""
    failed = [outcome for outcome in outcomes if not outcome.ok]
    if len(outcomes) == 1 and failed:
        error = MngrError(failed[0].error or "failed", failed[0].hint)
        error.exit_code = failed[0].exit_code or 1
        raise error


def compute_exit_code(outcomes: Sequence[Outcome]) -> int:
    """0, or 4 when some of several failed."""
    return 0 if all(outcome.ok for outcome in outcomes) else PartialFailure.exit_code
