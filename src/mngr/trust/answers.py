"""Answers that a test gives itself: files that its shell lines write, and what it prints before it looks at the output."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mngr.trust import escapes, values
from mngr.trust.checks import Check

TYPE_CHECKING = False
_PRINTS = frozenset(("print", "sys.stdout.write", "sys.stderr.write", "click.echo"))
Found = tuple[int, str, str]  # line or 0, what, shown


def own(old: list[ast.Call], new: list[ast.Call], checks: list[Check]) -> Iterator[Found]:
    """What the new test does, and the old one did not, to make its own checks hold."""
    before = {values.text(action) for action in old}
    fresh = [action for action in new if values.text(action) not in before]
    yield from _planted(fresh, checks)
    yield from _printed(fresh, checks)


def _planted(actions: list[ast.Call], checks: list[Check]) -> Iterator[Found]:
    """A file that a shell line writes with words of its own, and that is looked at later."""
    asked = [line for check in checks for part in ast.walk(check.node) if (line := escapes.command_of(part))]
    asked += [values.text(check.node) for check in checks]
    for action in actions:
        command = escapes.command_of(action) or ""
        for name in escapes.written_by(command):
            if any(name in line and line != command for line in asked):
                yield 0, f"it writes {name} itself, and then looks at it", command


def _printed(actions: list[ast.Call], checks: list[Check]) -> Iterator[Found]:
    """Output that is the test's own."""
    for action in actions:
        said = "\n".join(str(values.value(arg)) for arg in action.args if values.known(arg)).strip()
        if values.text(action.func) not in _PRINTS or not said:
            continue
        for check in checks:
            wanted = check.value.strip() if isinstance(check.value, str) else ""
            if "readouterr" in check.subject and wanted and (wanted in said or said in wanted):
                yield check.line, "the test prints that itself", said
                break
