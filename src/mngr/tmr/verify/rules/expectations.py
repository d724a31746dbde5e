"""Decides whether an edit changes only the values that checks expect."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from mngr.tmr.verify.rules.checks import BROAD_EXCEPTIONS, Check


def is_other_expectation(old: Sequence[Check], new: Sequence[Check]) -> bool:
    """True when each new check looks at the same thing as the old one, as exactly, and expects another value."""
    return len(old) == len(new) and all(map(_is_as_exact, old, new))


def _is_as_exact(old: Check, new: Check) -> bool:
    if new.guards != old.guards or (new.swallowed_at and not old.swallowed_at):
        return False
    match old.node, new.node:
        case ast.Compare(ops=[ast.Eq()]) as before, ast.Compare(ops=[ast.Eq()]) as after:
            return _has_same_subject(before, after)
        case ast.Call() as before, ast.Call() as after:
            return _raises_as_exactly(before, after)
    return False


def _has_same_subject(before: ast.Compare, after: ast.Compare) -> bool:
    """True when one side stays. The other side names nothing new, so no object of the edit decides the comparison."""
    pairs = [(before.left, before.comparators[0], after.left, after.comparators[0])]
    pairs += [(before.comparators[0], before.left, after.comparators[0], after.left)]
    return any(
        ast.dump(subject) == ast.dump(same)
        and not isinstance(subject, ast.Constant)
        and _list_names(value) <= _list_names(expected)
        for subject, expected, same, value in pairs
    )


def _raises_as_exactly(before: ast.Call, after: ast.Call) -> bool:
    """True when both calls expect one exception by name, and the new one compares its text if the old one did."""
    if ast.dump(before.func) != ast.dump(after.func) or ast.unparse(after.func).rpartition(".")[2] != "raises":
        return False
    exceptions = [ast.unparse(argument) for argument in after.args]
    keywords = {keyword.arg for keyword in after.keywords}
    return (
        len(exceptions) == 1
        and isinstance(after.args[0], (ast.Name, ast.Attribute))
        and exceptions[0].rpartition(".")[2] not in BROAD_EXCEPTIONS
        and {keyword.arg for keyword in before.keywords} <= keywords
    )


def _list_names(node: ast.expr) -> set[str]:
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return names | {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
