"""Checks that a stronger one makes needless: what was looked at in part is compared whole now."""

from __future__ import annotations

import ast
import re

from mngr.tmr.verify.legacy import patterns, values
from mngr.tmr.verify.legacy.checks import NEGATIVE, Check
from mngr.tmr.verify.legacy.scene import has
from mngr.tmr.verify.legacy.values import UNKNOWN
from mngr.tmr.verify.legacy.writing import kept

# Several views of one and the same record of what happened.
_FAMILIES = (
    frozenset("text messages records record_tuples get_records".split()),
    frozenset("called call_count call_args call_args_list mock_calls method_calls await_count await_args_list".split()),
)  # fmt: skip
_COUNTS = frozenset(("call_count", "await_count"))


def by(old: Check, new: Check) -> bool:
    """Whether the new check cannot hold where the old one does not."""
    return _by_value(old, new) or _by_record(old, new) or _by_recorder(old, new) or _by_warning(old, new)


def _by_value(old: Check, new: Check) -> bool:
    """The whole is compared: the old check is tried on the part of it that it looked at."""
    if new.kind != "eq" or new.views or new.empty or new.expected is None or old.subject == new.subject:
        return False
    parts = _parts(old.node, new)
    if not parts:
        return False
    every = any(condition.startswith("each ") for condition in old.conditions)
    return (all if every else any)(_holds(old, part) for part in parts)


def _parts(node: ast.expr, new: Check) -> list[ast.expr]:
    """What the new check expects where the old one looked."""
    if values.text(node) == new.subject and new.expected is not None:
        return [new.expected]
    match node:
        case ast.Subscript(value=whole, slice=index) if values.known(index):
            return _items(_parts(whole, new), values.value(index))
        case ast.Call(func=ast.Attribute(value=whole, attr="get"), args=[index, *_]) if values.known(index):
            return _items(_parts(whole, new), values.value(index))
        case ast.Call(func=ast.Name(id="each"), args=[whole]):
            rows = [part for part in _parts(whole, new) if isinstance(part, ast.List | ast.Tuple)]
            return [item for row in rows for item in row.elts]
        case ast.Attribute(value=whole, attr=name):
            made = [part for part in _parts(whole, new) if isinstance(part, ast.Call)]
            return [k.value for part in made for k in part.keywords if k.arg == name]
    return []


def _items(wholes: list[ast.expr], index: object) -> list[ast.expr]:
    found: list[ast.expr] = []
    for whole in wholes:
        if isinstance(whole, ast.Dict):
            pairs = zip(whole.keys, whole.values, strict=True)
            found += [made for key, made in pairs if key is not None and values.value(key) == index]
        elif isinstance(whole, ast.List | ast.Tuple) and isinstance(index, int):
            found += whole.elts[index:][:1] if -len(whole.elts) <= index < len(whole.elts) else []
    return found


def _holds(old: Check, part: ast.expr) -> bool:
    """Whether the old check holds of a value that stands in the new one."""
    found, wanted = values.value(part), old.value
    if old.kind == "eq" and not old.views and old.expected is not None:
        return values.text(part) == values.text(old.expected) or (found is not UNKNOWN and found == wanted)
    if found is UNKNOWN or old.views not in ((), ("len",)) or old.kind in {"raises", "or", "call"}:
        return False
    try:
        seen = len(found) if old.views else found  # type: ignore[arg-type]
        match old.kind:
            case "eq":
                return bool(seen == wanted)
            case "gt":
                return bool(seen > wanted or (not old.option and seen == wanted))  # type: ignore[operator]
            case "lt":
                return bool(seen < wanted or (not old.option and seen == wanted))  # type: ignore[operator]
            case "in":
                return wanted is not UNKNOWN and (wanted == seen or wanted in seen)  # type: ignore[operator]
            case "starts":
                return str(getattr(seen, old.option)(wanted)) == "True"
            case "true" | "empty":
                return bool(seen) is (old.kind == "true")
            case "search" | "full":
                return isinstance(wanted, str) and isinstance(seen, str) and _fits(wanted, seen)
            case "isinstance":
                return old.expected is not None and type(seen).__name__ in values.text(old.expected)
    except (TypeError, AttributeError, ValueError):
        return False
    return False


def _by_record(old: Check, new: Check) -> bool:
    """The new check is about another view of the same record."""
    if old.kind in NEGATIVE or new.kind not in {"eq", "full", "in"} or new.expected is None or new.empty:
        return False
    if new.views or not (place := kept(old.node, "_mngr_record", _record)):
        return False
    if place != kept(new.node, "_mngr_record", _record):
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


def _by_recorder(old: Check, new: Check) -> bool:
    """What a mock was called with is what a list of the test's own has, to which the program added it."""
    if old.kind != "call" or not old.option.startswith(("assert_called", "assert_any_call", "assert_has_calls")):
        return False
    whole = new.kind == "eq" and not new.views and not new.empty and new.subject.startswith("gathered(")
    said = values.words(*values.literals(old.expected))
    return whole and bool(said) and said <= values.words(*values.literals(new.expected))


def _by_warning(old: Check, new: Check) -> bool:
    """What was looked for in recorded warnings is what must be warned of now, with its kind or its words."""
    if "catch_warnings(" not in old.subject or new.empty or old.kind in NEGATIVE:
        return False
    match new.kind, new.node:
        case "search", ast.Attribute(value=ast.Call(func=ast.Name(id="raised"), args=[asked])):
            told = isinstance(old.value, str) and isinstance(new.value, str)
            told = told and str(old.value) in patterns.of_regex(str(new.value)).fixed
            same = old.kind in {"in", "search", "starts"} and ".message" in old.subject and told
        case "raises", asked:
            parts = [part for node in (old.node, old.expected) if node for part in ast.walk(node)]
            kinds = {values.text(part) for part in parts if isinstance(part, ast.Name)}
            same = ".category" in old.subject and new.option in kinds
        case _:
            return False
    return same and all(has(old.node, values.text(one)) for one in getattr(asked, "elts", [asked]))


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
