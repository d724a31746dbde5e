"""One command line: its words, the context they imply, and output to the user."""

from __future__ import annotations

import sys

from mngr.agents.context import Context
from mngr.base.errors import MngrError, PartialFailure
from mngr.cli.framework.parse import scan_options
from mngr.cli.framework.terminal_text import strip_controls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mngr.api import Fleet
    from mngr.base.model import Outcome
    from mngr.cli.framework.command_spec import CommandSpec


class Cli:
    """One command line: its words, the context they imply, and output to the user."""

    last: Cli | None = None  # The last command line, for errors.

    def __init__(self, name: str, words: list[str], command: CommandSpec | None) -> None:
        """Read the common options. `command` declares which words are values; None if a plugin may declare it."""
        Cli.last = self
        self.name = name
        self.words = words
        self.command = command
        self.quiet = False
        found = scan_options(command, words)
        self.format = found["format"][-1] if found["format"] else "human"
        self.home = found["home"][-1] if found["home"] else None
        self.assignments = found["set"]
        self.wants_help = bool(found["help"])
        self.wants_version = bool(found["version"])
        self._context: Context | None = None

    @property
    def context(self) -> Context:
        """The context with the home and the settings that this command line asks for."""
        if self._context is None:
            self._context = Context(self.home, settings=self.assignments, note=self.print_message)
            if sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty():
                self._context.ask_trust = self._ask_trust
        return self._context

    @property
    def fleet(self) -> Fleet:
        """The Python API, with the context of this command line."""
        from mngr.api import Fleet

        return Fleet(context=self.context)

    def print_message(self, text: str) -> None:
        """Print a line for the user to standard error, unless --quiet is set. Data goes through `print_data`."""
        if not self.quiet:
            print(strip_controls(text), file=sys.stderr)

    def ask_yes_no(self, text: str, *, otherwise: bool = True) -> bool:
        """Ask the user at the terminal; an empty line means `otherwise`."""
        print(f"{text} [{'Y/n' if otherwise else 'y/N'}]", file=sys.stderr)
        try:
            answer = input().strip().lower()
        except EOFError:
            return False
        return answer in ("y", "yes") if answer else otherwise

    def _ask_trust(self, text: str) -> bool:
        return self.ask_yes_no(text, otherwise=False)

    def print_data(self, text: str) -> None:
        """Write data to standard output, with a line end after it."""
        sys.stdout.write(text if text.endswith("\n") or not text else text + "\n")


def raise_single_failure(outcomes: Sequence[Outcome]) -> None:
    """Raise the failure of the only target; with several targets, raise nothing."""
    failed = [outcome for outcome in outcomes if not outcome.ok]
    if len(outcomes) == 1 and failed:
        error = MngrError(failed[0].error or "failed", failed[0].hint)
        error.exit_code = failed[0].exit_code or 1
        raise error


def compute_exit_code(outcomes: Sequence[Outcome]) -> int:
    """Return 0, or 4 when at least one target failed."""
    return 0 if all(outcome.ok for outcome in outcomes) else PartialFailure.exit_code
