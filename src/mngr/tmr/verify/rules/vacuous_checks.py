"""Explains why a check or a test cannot fail, from its text alone. What is not explained here may still be vacuous."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from mngr.tmr.finding import Finding
from mngr.tmr.verify.rules.python_source import format_name, get_last_part
from mngr.tmr.verify.rules.test_source import TestSource

_EVERYTHING = ("", ".*", "(?s).*", ".*?", "^", "$", "^.*$")
_EQUAL_METHODS = frozenset(
    ("assertEqual", "assertEquals", "assertIs", "assertCountEqual", "assertListEqual", "assertDictEqual")
)
_TRUE_METHODS = frozenset(("assertTrue", "assertIsNotNone"))
_TEXT_METHODS = frozenset(("to_contain", "to_match"))
_EQUAL_TO_ALL = frozenset(("ANY", "AnyThing", "IsAnyStr", "IsStr"))


def list_vacuous_tests(old: TestSource | None, new: TestSource, path: str) -> Iterator[Finding]:
    """Yield a note for each new or changed test without a check, and for each vacuous check of a new test."""
    for name, node in new.judged.items():
        before = old.functions.get(name) if old is not None else None
        if name not in new.tests or (before is not None and ast.dump(before) == ast.dump(node)):
            continue
        checks = new.get_checks(name)
        if not checks:
            yield Finding(rule="no-check", level="note", path=path, line=node.lineno, what=f"{name} checks nothing")
        for check in checks if before is None else ():
            if reason := explain_vacuous(check.node, new.origins):
                what = f"{name}: this check cannot fail: {reason}"
                yield Finding(rule="always-true", level="note", path=path, line=check.line, what=what, new=check.text)


def explain_vacuous(node: ast.expr, origins: dict[str, str]) -> str:
    """Return why this check always holds, or an empty string."""
    match node:
        case ast.Constant(value=value):
            return f"{value!r} is always true" if value else ""
        case ast.Tuple(elts=[_, *_]) | ast.List(elts=[_, *_]) | ast.Set() | ast.Dict(keys=[_, *_]):
            return "a collection with an element is always true"
        case ast.Lambda() | ast.GeneratorExp():
            return "an object that is not evaluated is always true"
        case ast.BoolOp(op=ast.Or(), values=values):
            return _explain_or(values, origins)
        case ast.BoolOp(op=ast.And(), values=values):
            reasons = [explain_vacuous(value, origins) for value in values]
            return reasons[0] if all(reasons) else ""
        case ast.UnaryOp(op=ast.Not(), operand=ast.Constant(value=value)):
            return "" if value else f"`not {value!r}` is always true"
        case ast.IfExp(body=body, orelse=orelse):
            return explain_vacuous(orelse, origins) or explain_vacuous(body, origins)
        case ast.NamedExpr(value=value):
            return explain_vacuous(value, origins)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _explain_comparison(left, op, right, origins)
        case ast.Call():
            return _explain_call(node, origins)
    return ""


def _explain_or(values: Sequence[ast.expr], origins: dict[str, str]) -> str:
    for value in values:
        if reason := explain_vacuous(value, origins):
            return f"one side of `or` decides nothing: {reason}"
    texts = {ast.unparse(value) for value in values}
    negated = {ast.unparse(value.operand) for value in values if isinstance(value, ast.UnaryOp)}
    return "either side of `or` is the opposite of the other" if texts & negated else ""


def _explain_comparison(left: ast.expr, op: ast.cmpop, right: ast.expr, origins: dict[str, str]) -> str:
    value = left.value if isinstance(left, ast.NamedExpr) else left
    if isinstance(op, ast.Eq | ast.Is | ast.LtE | ast.GtE | ast.In) and ast.unparse(value) == ast.unparse(right):
        return "it compares a value with itself"
    if isinstance(value, ast.Constant) and isinstance(right, ast.Constant):
        return "it compares two constants"
    if (
        isinstance(op, ast.Eq)
        and {get_last_part(format_name(side, origins)) for side in (value, right)} & _EQUAL_TO_ALL
    ):
        return "it compares with an object that equals everything"
    if isinstance(op, ast.Eq) and isinstance(right, ast.Call) and _is_everything(right, origins):
        return "it compares with an object that equals everything"
    if isinstance(op, ast.In) and isinstance(value, ast.Constant) and value.value in ("", b""):
        return "every text contains the empty text"
    if isinstance(op, ast.In) and isinstance(right, ast.List | ast.Tuple | ast.Set):
        texts = [ast.unparse(element) for element in right.elts]
        return "it looks for a value in a collection that contains the value" if ast.unparse(value) in texts else ""
    smallest = _find_number(right)
    if smallest is None or not isinstance(value, ast.Call) or format_name(value.func, origins) not in ("len", "abs"):
        return ""
    is_always = smallest <= 0 if isinstance(op, ast.GtE) else smallest < 0 and isinstance(op, ast.Gt | ast.NotEq)
    return "a length is never negative" if is_always else ""


def _is_everything(node: ast.Call, origins: dict[str, str]) -> bool:
    return not node.args and get_last_part(format_name(node.func, origins)) in _EQUAL_TO_ALL


def _find_number(node: ast.expr) -> float | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        return -value if isinstance(value, int | float) else None
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int | float) else None


def _explain_call(node: ast.Call, origins: dict[str, str]) -> str:
    name = get_last_part(format_name(node.func, origins))
    args = node.args
    match (name, args):
        case ("bool", [value]):
            return explain_vacuous(value, origins)
        case ("isinstance", [_, ast.Name(id="object")]):
            return "everything is an object"
        case ("all", [ast.List(elts=[]) | ast.Tuple(elts=[])]):
            return "`all` of nothing is true"
        case ("search" | "match", [ast.Constant(value=pattern), *_]) if pattern in _EVERYTHING:
            return "this pattern matches every text"
        case ("startswith" | "endswith", [ast.Constant(value="" | b"")]):
            return "every text starts and ends with the empty text"
    if name in _TRUE_METHODS and args:
        return explain_vacuous(args[0], origins)
    if name in _EQUAL_METHODS and len(args) > 1:
        return _explain_comparison(args[0], ast.Eq(), args[1], origins)
    if name == "assertIn" and len(args) > 1:
        return _explain_comparison(args[0], ast.In(), args[1], origins)
    if (
        name in _TEXT_METHODS
        and args
        and all(isinstance(arg, ast.Constant) and arg.value in _EVERYTHING for arg in args)
    ):
        return "every text contains this"
    return ""
