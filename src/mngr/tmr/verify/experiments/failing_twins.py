"""Writes twins of a test: copies under a random name that must fail, in the test's own file.

One twin expects wrong values or another exception. The other ends in a failing assertion, however its body ends. If a
twin passes, then a failure of the test itself would also go unseen.
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
_RAISING_METHODS = ("raises", "assertRaises", "assertRaisesRegex")
_EQUAL_METHODS = (
    *("assertEqual", "assertEquals", "assertAlmostEqual", "assertMultiLineEqual", "assertSequenceEqual"),
    *("assertListEqual", "assertTupleEqual", "assertSetEqual", "assertDictEqual", "assertCountEqual"),
)


class Twins(Struct):
    """A test file with twins. An id is empty if the test has nothing from which mngr can make this twin."""

    text: str
    failing: str
    wrong_value: str


def add_twins(text: str, test: TestFunction, token: str) -> Twins | None:
    """Return the test's file with twins right after the test, or None if mngr cannot make them."""
    function = _parse(text, test)
    if function is None or function.end_lineno is None:
        return _add_wrapped_twin(text, test, token)
    name = _name_twin(function.name, token)
    failing = _make_failing(function, name, token)
    wrong_value = _make_wrong_value(function, _name_twin(function.name, f"{token}_b"))
    twins = [failing] if wrong_value is None else [failing, wrong_value]
    lines = text.splitlines(keepends=True)
    indent = " " * function.col_offset
    added = "".join("\n" + textwrap.indent(ast.unparse(twin), indent) + "\n" for twin in twins)
    lines.insert(function.end_lineno, ("" if lines[function.end_lineno - 1].endswith("\n") else "\n") + added)
    prefix = test.id.removesuffix(function.name)
    new_text = "".join(lines)
    if not is_python(new_text):
        return None
    return Twins(
        text=new_text, failing=prefix + name, wrong_value="" if wrong_value is None else prefix + wrong_value.name
    )


def make_test_fail(text: str, test: TestFunction, token: str) -> str | None:
    """Return the test's file in which the test itself ends in a failing assertion, or None if mngr cannot write it."""
    function = _parse(text, test)
    if function is None or function.end_lineno is None:
        return _wrap_test(text, test, token, test.id.rpartition("::")[2])
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    lines = text.splitlines(keepends=True)
    failing = ast.unparse(_make_failing(function, function.name, token))
    lines[first - 1 : function.end_lineno] = [textwrap.indent(failing, " " * function.col_offset) + "\n"]
    new_text = "".join(lines)
    return new_text if is_python(new_text) else None


def _name_twin(name: str, token: str) -> str:
    """Return a random name that pytest collects like the test's own name: with the same beginning and, if possible, end."""
    head, _, tail = name.partition("_")
    return f"{name}_{token}" if name.startswith("test") or not tail else f"{head}_{token}_{tail}"


def _parse(text: str, test: TestFunction) -> FunctionNode | None:
    try:
        return find_function(ast.parse(text), test)
    except (SyntaxError, ValueError, RecursionError):
        return None


# A test that its file does not define: it is inherited, imported or generated.


_WRAPPER = """

def _mngr_{token}(test, name):
    import functools, inspect

    @functools.wraps(test)
    def twin(*args, **kwargs):
        try:
            return test(*args, **kwargs)
        finally:
            assert {token!r} == ""

    @functools.wraps(test)
    async def async_twin(*args, **kwargs):
        try:
            return await test(*args, **kwargs)
        finally:
            assert {token!r} == ""

    wrapped = async_twin if inspect.iscoroutinefunction(test) else twin
    wrapped.__name__ = name
    return wrapped


{target} = _mngr_{token}({source}, {name!r})
"""


def _add_wrapped_twin(text: str, test: TestFunction, token: str) -> Twins | None:
    """Return the test's file with one twin at its end, which runs the test and then fails."""
    prefix, _, name = test.id.rpartition("::")
    twin_name = _name_twin(name, token)
    new_text = _wrap_test(text, test, token, twin_name)
    return None if new_text is None else Twins(text=new_text, failing=f"{prefix}::{twin_name}", wrong_value="")


def _wrap_test(text: str, test: TestFunction, token: str, name: str) -> str | None:
    owners = test.id.split("::")[1:]
    if not owners or not test.path.endswith(".py") or not all(owner.isidentifier() for owner in owners):
        return None
    target = ".".join([*owners[:-1], name])
    new_text = text + _WRAPPER.format(token=token, target=target, source=".".join(owners), name=name)
    return new_text if is_python(new_text) else None


# A test that its file defines.


def _make_failing(function: FunctionNode, name: str, token: str) -> FunctionNode:
    """Return a copy that fails even if its body returns, skips or exits early."""
    twin = copy.deepcopy(function)
    check = ast.Assert(test=ast.Compare(left=ast.Constant(token), ops=[ast.Eq()], comparators=[ast.Constant("")]))
    twin.name = name
    twin.body = [ast.Try(body=twin.body, handlers=[], orelse=[], finalbody=[check])]
    return ast.fix_missing_locations(twin)


def _make_wrong_value(function: FunctionNode, name: str) -> FunctionNode | None:
    """Return a copy in which each certain check expects another value or exception, or None without such a check."""
    twin = copy.deepcopy(function)
    twin.name = name
    count = sum(_falsify_statement(node) for node in _list_certain_statements(twin.body))
    return ast.fix_missing_locations(twin) if count else None


def _falsify_statement(node: ast.stmt) -> bool:
    """Let a check expect something else. Return False without a check that mngr can change."""
    match node:
        case ast.Assert(test=test):
            return _falsify(test)
        case ast.With(items=items) | ast.AsyncWith(items=items):
            return any(_falsify_call(item.context_expr) for item in items if isinstance(item.context_expr, ast.Call))
        case ast.Expr(value=ast.Call() as call):
            return _falsify_call(call)
    return False


def _falsify_call(call: ast.Call) -> bool:
    """Change the expected value of `assertEqual` and the like, or the exception of `raises` and `assertRaises`."""
    method = ast.unparse(call.func).rpartition(".")[2]
    if method in _RAISING_METHODS and call.args:
        call.args[0] = ast.parse("type('Twin', (Exception,), {})", mode="eval").body
        return True
    if method in _EQUAL_METHODS and len(call.args) > 1:
        index = 0 if _is_literal(call.args[0]) else 1
        call.args[index] = _change_expression(call.args[index])
        return True
    if method == "assertIn" and len(call.args) > 1 and _is_text(call.args[0]):
        call.args[0] = _change_expression(call.args[0])
        return True
    return False


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
    """Replace the expected side of a comparison by another value. Return False without such a comparison."""
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            return any(_falsify(value) for value in values)
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
            if _is_literal(left) and not _is_literal(right):
                test.left = _change_expression(left)
            else:
                test.comparators[0] = _change_expression(right)
            return True
        case ast.Compare(left=left, ops=[ast.In()]) if _is_text(left):
            test.left = _change_expression(left)
            return True
    return False


def _is_literal(node: ast.expr) -> bool:
    """True when an expression names and calls nothing."""
    return not any(isinstance(part, ast.Name | ast.Call) for part in ast.walk(node))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _change_expression(node: ast.expr) -> ast.Constant:
    """Return another value of the same kind for a literal, and a text that nothing equals for another expression."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float, str, bytes):
        return ast.Constant(_change_value(node.value))
    return ast.Constant(_change_value(""))


def _change_value(value: object) -> int | float | str | bytes:
    if isinstance(value, str):
        return value + "\N{REPLACEMENT CHARACTER}twin"
    if isinstance(value, bytes):
        return value + b"\xfftwin"
    assert isinstance(value, (int, float))
    return value + _WRONG_NUMBER
