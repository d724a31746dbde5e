"""Checks that a stronger one makes needless: records that were looked at in part, and are compared whole now."""

from __future__ import annotations

import ast
import re

from mngr.trust import values
from mngr.trust.checks import NEGATIVE, Check

TYPE_CHECKING = False
# Several views of one and the same record of what happened.
_FAMILIES = (
    frozenset("text messages records record_tuples get_records".split()),
    frozenset("called call_count call_args call_args_list mock_calls method_calls await_count await_args_list".split()),
)  # fmt: skip
_COUNTS = frozenset(("call_count", "await_count"))


def by(old: Check, new: Check) -> bool:
    """Whether the new check, about another view of the same record, cannot hold where the old one does not."""
    if old.kind in NEGATIVE or new.kind not in {"eq", "full", "in"} or new.expected is None or new.empty:
        return False
    if new.views or not (place := _record(old.node)) or place != _record(new.node):
        return False
    given = [item for item in values.literals(new.expected) if isinstance(item, str)]
    found = old.value
    match old.kind:
        case "true":
            return bool(given) or new.value not in ([], (), {}, "", 0)
        case "in" | "starts" if isinstance(found, str):
            return any(found in item for item in given)
        case "search" | "full" if isinstance(found, str):
            return any(_fits(found, item) for item in given)
        case "eq" | "gt" if isinstance(found, int) and (old.views[:1] == ("len",) or _is_count(old.node)):
            rows = new.expected.elts if isinstance(new.expected, ast.List | ast.Tuple) else []
            return new.kind == "eq" and (len(rows) == found if old.kind == "eq" else len(rows) > found)
        case "eq" | "in" | "oneof":
            said = values.words(values.text(old.expected)) if old.expected is not None else set()
            return bool(said) and said <= values.words(values.text(new.expected))
    return False


def _record(node: ast.AST) -> str:
    """The record that an expression is a view of: whose it is, and of which family."""
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute):
            for number, family in enumerate(_FAMILIES):
                whose = values.text(part.value)
                if part.attr in family and (number or whose.endswith("caplog") or "log" in whose):
                    return f"{number} {whose}"
    return ""


def _is_count(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in _COUNTS


def _fits(pattern: str, item: str) -> bool:
    """Whether the fixed words of a pattern stand in a text, in order."""
    fixed = [word for word in re.split(r"[\\.*+?()\[\]{}|^$]+", pattern) if len(word.strip()) > 1]
    at = 0
    for word in fixed:
        at = item.find(word, at)
        if at < 0:
            return False
    return bool(fixed)
