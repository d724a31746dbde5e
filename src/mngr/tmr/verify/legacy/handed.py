"""What a function that tests use hands out: the same, less, or something of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mngr.tmr.verify.legacy import values
from mngr.tmr.verify.legacy.checks import Check
from mngr.tmr.verify.legacy.scene import Scene
from mngr.tmr.verify.legacy.source import Module
from mngr.tmr.verify.legacy.standin import fake
from mngr.tmr.verify.legacy.strength import LOOSE
from mngr.tmr.verify.legacy.views import peel

Found = tuple[str, str, str]  # rule, level, what


def less(before: ast.expr, after: ast.expr | None, old: Module, new: Module, scene: Scene) -> Iterator[Found]:
    """How what is returned now is not what the program made any more."""
    if not old.traces(before):
        return
    if after is None or _is_own(before, after, new):
        yield "fixture-stubbed", "refuse", "returns its own data, not the output of the program"
        return
    given = [Check(kind="true", node=node) for node in (before, after)]
    if why := fake(given[0], given[1], scene):
        yield "program-replaced", "refuse" if "program" in why else "note", f"returns something else: {why}"
    was, now = peel(before), peel(after)
    lost = [view for view in now[1] if view not in was[1] and view in LOOSE]
    if lost and values.text(was[0]) == values.text(now[0]):
        yield "loosened", "refuse", f"returns less than before: {', '.join(lost)}"


def _is_own(before: ast.expr, after: ast.expr, new: Module) -> bool:
    """Whether it is, or may be, something that the file says itself."""
    if not new.traces(after):
        return True
    parts = [part for part in ast.walk(after) if isinstance(part, ast.IfExp)]
    known = {values.text(part) for part in ast.walk(before)}
    ways = [way for part in parts for way in (part.body, part.orelse)]
    return any(not new.traces(way) and values.text(way) not in known for way in ways)
