"""Writes twins of a test: copies under a random name that must fail, in the test's own file.

One twin compares with wrong values. The other ends in a failing assertion, however its body ends. If a twin passes,
then a failure of the test itself would also go unseen.
"""

from __future__ import annotations

import ast
import copy
import textwrap

from mngr.base.model import Struct
from mngr.tmr.runners.test_run import TestFunction
from mngr.tmr.verify.experiments.changed_test_lines import FunctionNode, find_function
from mngr.tmr.verify.mutants.mutant_selection import is_python

_WRONG_NUMBER = 1_000_003


class Twins(Struct):
    """A test file with twins. An id is empty if the test has nothing from which mngr can make this twin."""

    text: str
    failing: str
    wrong_value: str


def add_twins(text: str, test: TestFunction, token: str) -> Twins | None:
    """Return the test's file with twins right after the test, or None if mngr cannot make them."""
    function = _parse(text, test)
    if function is None or function.end_lineno is None:
        return None
    name = f"{function.name}_{token}"
    failing = _make_failing(function, name, token)
    wrong_value = _make_wrong_value(function, f"{name}_b")
    twins = [failing] if wrong_value is None else [failing, wrong_value]
    lines = text.splitlines(keepends=True)
    indent = " " * function.col_offset
    added = "".join("\n" + textwrap.indent(ast.unparse(twin), indent) + "\n" for twin in twins)
    lines.insert(function.end_lineno, ("" if lines[function.end_lineno - 1].endswith("\n") else "\n") + added)
    prefix = test.id.removesuffix(function.name)
    new_text = "".join(lines)
    if not is_python(new_text):
        return None
    return Twins(text=new_text, failing=prefix + name, wrong_value="" if wrong_value is None else f"{prefix}{name}_b")


def make_test_fail(text: str, test: TestFunction, token: str) -> str | None:
    """Return the test's file in which the test itself ends in a failing assertion, or None if mngr cannot write it."""
    function = _parse(text, test)
    if function is None or function.end_lineno is None:
        return None
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    lines = text.splitlines(keepends=True)
    failing = ast.unparse(_make_failing(function, function.name, token))
    lines[first - 1 : function.end_lineno] = [textwrap.indent(failing, " " * function.col_offset) + "\n"]
    new_text = "".join(lines)
    return new_text if is_python(new_text) else None


def _parse(text: str, test: TestFunction) -> FunctionNode | None:
    try:
        return find_function(ast.parse(text), test)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _make_failing(function: FunctionNode, name: str, token: str) -> FunctionNode:
    """Return a copy that fails even if its body returns, skips or exits early."""
    twin = copy.deepcopy(function)
    check = ast.Assert(test=ast.Compare(left=ast.Constant(token), ops=[ast.Eq()], comparators=[ast.Constant("")]))
    twin.name = name
    twin.body = [ast.Try(body=twin.body, handlers=[], orelse=[], finalbody=[check])]
    return ast.fix_missing_locations(twin)


def _make_wrong_value(function: FunctionNode, name: str) -> FunctionNode | None:
    """Return a copy in which each certain comparison with a literal has another literal, or None without one."""
    twin = copy.deepcopy(function)
    twin.name = name
    count = sum(_falsify(node.test) for node in _list_certain_statements(twin.body) if isinstance(node, ast.Assert))
    return twin if count else None


def _list_certain_statements(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements that run whenever the function runs to its end."""
    statements: list[ast.stmt] = []
    for node in body:
        statements.append(node)
        if isinstance(node, (ast.With, ast.AsyncWith)) and not any(
            "raises" in ast.unparse(item) for item in node.items
        ):
            statements += _list_certain_statements(node.body)
        if any(isinstance(inner, ast.Return) for inner in ast.walk(node)):
            break
    return statements


def _falsify(test: ast.expr) -> bool:
    """Replace the literal of a comparison by another one of the same kind. Return False without such a comparison."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(_falsify(value) for value in test.values)
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq):
        return False
    for side in (test.comparators[0], test.left):
        if isinstance(side, ast.Constant) and type(side.value) in (int, float, str, bytes):
            side.value = _change_value(side.value)
            return True
    return False


def _change_value(value: object) -> int | float | str | bytes:
    if isinstance(value, str):
        return value + "\N{REPLACEMENT CHARACTER}twin"
    if isinstance(value, bytes):
        return value + b"\xfftwin"
    assert isinstance(value, (int, float))
    return value + _WRONG_NUMBER
