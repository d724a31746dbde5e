"""What a function returns, as one expression of all its ways out."""

from __future__ import annotations

import ast

from mngr.tmr.verify.legacy import values


def call(name: str, *args: ast.expr) -> ast.Call:
    """A call, as an expression."""
    return ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=list(args), keywords=[])


def joined(found: list[tuple[tuple[str, ...], ast.expr]], base: int = 0) -> ast.expr | None:
    """One expression of all that a function may return, each with its conditions; the first `base` are its caller's."""
    if not found:
        return None
    if (told := _told(found, base)) is not None:
        return told
    made = found[-1][1]
    for conditions, other in reversed(found[:-1]):
        if values.text(other) != values.text(made):
            why = " ".join(conditions[base:]) or "…"
            made = ast.IfExp(test=call("each", ast.Constant(value=why)), body=other, orelse=made)
    return made


def _told(found: list[tuple[tuple[str, ...], ast.expr]], base: int) -> ast.expr | None:
    """What a function says that returns True where something is so, and else False."""
    ways = list({(conditions, values.text(made)): made for conditions, made in found}.items())
    if [values.value(made) for _, made in ways] != [True, False]:
        return None
    tests = [condition[3:] for condition in found[0][0][base:] if condition.startswith("if ")]
    try:
        parsed = [ast.parse(test, mode="eval").body for test in tests]
    except (SyntaxError, ValueError):
        return None
    whole = len(tests) == sum(not c.startswith("while ") for c in found[0][0][base:])
    if not parsed or not whole:
        return None
    return parsed[0] if len(parsed) == 1 else ast.BoolOp(op=ast.And(), values=parsed)
