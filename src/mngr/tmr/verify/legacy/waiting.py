"""Loops that wait: what must hold for one to be left, where the test fails otherwise."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mngr.tmr.verify.legacy import values

_LIMITS = re.compile(r"(?:asyncio|async_timeout)\.timeout(?:_at)?|(?:anyio|trio)\.fail_(?:after|at)")
FAILS = ("fail", "assertFail")
Loop = ast.While | ast.For | ast.AsyncFor
Exit = tuple[ast.expr, bool] | list[ast.stmt]  # what is so, or is not; or statements that went through


class _Unclear(Exception):
    """There is a way out that cannot be told."""


def is_limit(node: ast.expr) -> bool:
    """Whether a context fails when its block takes too long."""
    return isinstance(node, ast.Call) and bool(_LIMITS.fullmatch(values.text(node.func)))


def is_fail(node: ast.AST) -> bool:
    """Whether a call lets the test fail."""
    return isinstance(node, ast.Call) and values.text(node.func).split(".")[-1] in FAILS


def is_failing(node: ast.stmt) -> bool:
    """Whether a statement always fails."""
    if isinstance(node, ast.Assert):
        return values.known(node.test) and not values.value(node.test)
    return isinstance(node, ast.Expr) and is_fail(node.value)


def way_out(node: Loop, after: list[ast.stmt], limited: bool = False) -> Exit | None:
    """What holds once a loop is behind the test; None where it may also have given up.

    `after`: what follows it. `limited`: something around it fails when the time is over.
    """
    try:
        leaves = list(_leaves(node.body))
    except _Unclear:
        return None
    returns = all(isinstance(end, ast.Return) for _, end in leaves)
    gives_up = not (_fails(node.orelse) or (returns and leaves and _fails(after)))
    if isinstance(node, ast.While):
        endless = values.known(node.test) and bool(values.value(node.test))
        gives_up = gives_up and not endless
        if not limited and not _bounded(node) and (endless or gives_up):
            return None
        if gives_up:
            return None if leaves else (node.test, False)
    return leaves[0][0] if len(leaves) == 1 and not gives_up else None


def _bounded(node: ast.While) -> bool:
    """Whether something in it ends the waiting."""
    parts = list(ast.walk(node))
    asks = any(isinstance(part, ast.Assert) and not values.known(part.test) for part in parts)
    return asks or any(isinstance(part, ast.Raise) or is_fail(part) for part in parts)


def _fails(body: list[ast.stmt]) -> bool:
    """Whether statements one after the other end in a failure."""
    for statement in body:
        if isinstance(statement, ast.Raise):
            told = values.text(statement.exc).split("(")[0] if statement.exc else ""
            return not re.search(r"(?i)skip|xfail|exit", told)
        if is_failing(statement):
            return True
        if not isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Expr):
            return False
    return False


def _leaves(body: list[ast.stmt]) -> Iterator[tuple[Exit, ast.stmt]]:
    """The ways out of a loop, each with what led there."""
    for statement in body:
        match statement:
            case ast.If(test=test, body=then, orelse=orelse):
                for way, holds in ((then, True), (orelse, False)):
                    if way and isinstance(way[-1], ast.Break | ast.Return):
                        _none(way[:-1])
                        yield (test, holds), way[-1]
                    else:
                        _none(way)
            case ast.Try(body=then, handlers=handlers, orelse=orelse, finalbody=final):
                for part in handlers:
                    _none(part.body)
                _none(final)
                whole = [*then, *orelse]
                if whole and isinstance(whole[-1], ast.Break | ast.Return):
                    _none(whole[:-1])
                    yield whole[:-1], whole[-1]
                else:
                    _none(whole)
            case ast.With(body=inner) if not _suppresses(statement):
                yield from _leaves(inner)
            case _:
                _none([statement])


def _suppresses(node: ast.With) -> bool:
    return any("suppress" in values.text(item.context_expr) for item in node.items)


def _none(body: list[ast.stmt], nested: bool = False) -> None:
    """There is no way out of the loop in these."""
    for statement in body:
        if isinstance(statement, ast.Return) or (isinstance(statement, ast.Break) and not nested):
            raise _Unclear
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        deeper = nested or isinstance(statement, Loop)
        for inner in _blocks(statement):
            _none(inner, deeper)


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for part in (*getattr(statement, "handlers", []), *getattr(statement, "cases", [])):
        yield part.body
