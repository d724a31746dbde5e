"""Faults of whole functions: a function that does nothing, fails, ends the program or returns other values."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from itertools import accumulate

from mngr.base.model import Struct
from mngr.tmr.runners.pytest.trials import FileEdit

NOTHING, FAILURE, EXIT = "return", 'raise RuntimeError("fault")', "raise SystemExit(3)"
_OUTPUT_CALLS = ("print", "echo", "secho", "write", "writelines")
# Returns another value of the same kind and shape. Of another object, a copy with other simple attributes.
_OTHER_VALUE = (
    "(lambda f, v: f(f, v))(lambda f, v: (not v) if isinstance(v, bool) else v + 1 if isinstance(v, (int, float))"
    " else v + '?' if isinstance(v, str) else v + b'?' if isinstance(v, bytes) else 1 if v is None"
    " else type(v)([f(f, w) for w in v] or [0]) if type(v) in (list, tuple, set, frozenset)"
    " else ({k: f(f, w) for k, w in v.items()} or {0: 0}) if type(v) is dict"
    " else (lambda c: c.__dict__.update({k: f(f, w) for k, w in vars(v).items()"
    " if type(w) in (bool, int, float, str, bytes)}) or c)(__import__('copy').copy(v))"
    " if type(v).__module__ == __name__ and type(getattr(v, '__dict__', None)) is dict and not callable(v) else v, ("
)
_OTHER_VALUE_END = "))"
# Returns an empty text or collection in place of a full one, and None in place of another value.
_EMPTY_VALUE = "(lambda v: type(v)() if type(v) in (str, bytes, list, tuple, set, frozenset, dict) else None)(("


class FunctionFault(Struct):
    """A fault of one function, or of several together."""

    path: str
    line: int
    what: str  # for people
    edits: list[FileEdit]


def replace_bodies(sources: Mapping[str, str], lines: Mapping[str, Collection[int]], statement: str) -> list[FileEdit]:
    """Return the edits after which each function that was run only executes a statement."""
    return [
        _insert_first(path, text, starts, function, statement)
        for path, text in sources.items()
        for tree, starts in _parse(text)
        for function in _list_executed_functions(tree, lines.get(path, ()))
    ]


def change_values(sources: Mapping[str, str], lines: Mapping[str, Collection[int]]) -> list[FileEdit]:
    """Return the edits after which all functions that were run return and print other values."""
    return [edit for fault in list_value_faults(sources, lines) for edit in fault.edits]


def list_value_faults(sources: Mapping[str, str], lines: Mapping[str, Collection[int]]) -> list[FunctionFault]:
    """Return a fault for each function that was run: it returns and prints other values."""
    faults: list[FunctionFault] = []
    for path, text in sources.items():
        for tree, starts in _parse(text):
            for function in _list_executed_functions(tree, lines.get(path, ())):
                values = _list_values(function, lines.get(path, ()))
                edits = [edit for value in values for edit in _wrap_value(path, text, starts, value)]
                if edits:
                    what = f"{function.name} returns or prints other values"
                    faults.append(FunctionFault(path=path, line=function.lineno, what=what, edits=edits))
    return faults


def list_empty_value_faults(sources: Mapping[str, str], lines: Mapping[str, Collection[int]]) -> list[FunctionFault]:
    """Return a fault for each function that was run: it returns empty values."""
    return [
        FunctionFault(path=path, line=function.lineno, what=f"{function.name} returns empty values", edits=edits)
        for path, text in sources.items()
        for tree, starts in _parse(text)
        for function in _list_executed_functions(tree, lines.get(path, ()))
        if (
            edits := [
                edit
                for node in _iter_own_nodes(function)
                if isinstance(node, ast.Return) and node.value is not None and node.lineno in lines.get(path, ())
                for edit in _wrap_value(path, text, starts, node.value, _EMPTY_VALUE)
            ]
        )
    ]


def change_constants(
    sources: Mapping[str, str], lines: Mapping[str, Collection[int]], names: Collection[str]
) -> list[FileEdit]:
    """Return the edits after which these names have other values, in modules and in classes."""
    return [
        edit
        for path, text in sources.items()
        for tree, starts in _parse(text)
        for owner in ast.walk(tree)
        if isinstance(owner, (ast.Module, ast.ClassDef))
        for value in _list_constants(owner, lines.get(path, ()), names)
        for edit in _wrap_value(path, text, starts, value)
    ]


def _list_constants(owner: ast.Module | ast.ClassDef, lines: Collection[int], names: Collection[str]) -> list[ast.expr]:
    """Return the values that these lines of a module or class assign to the names."""
    values: list[ast.expr] = []
    for node in owner.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None and node.lineno in lines:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id in names for target in targets):
                values.append(node.value)
    return values


def _parse(text: str) -> Iterator[tuple[ast.Module, list[int]]]:
    """Yield the tree of a text and the position of each of its lines, unless it is no Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    if "\r" in text or "\f" in text or text.startswith("\ufeff"):
        return
    yield tree, [0, *accumulate(len(line) + 1 for line in text.split("\n"))]


def _list_executed_functions(tree: ast.Module, lines: Collection[int]) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    executed = set(lines)
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return [
        function
        for function in functions
        if any(
            (line in executed and line > function.lineno) or function.body[0].lineno == function.lineno in executed
            for line in range(function.body[0].lineno, (function.end_lineno or function.lineno) + 1)
        )
    ]


def _insert_first(
    path: str, text: str, starts: list[int], function: ast.FunctionDef | ast.AsyncFunctionDef, statement: str
) -> FileEdit:
    """Return the edit that puts a statement before the first one of a function."""
    first = function.body[0]
    start = _find_position(text, starts, first.lineno, first.col_offset)
    separator = "; " if first.lineno == function.lineno else "\n" + " " * first.col_offset
    return FileEdit(path=path, start=start, end=start, new=statement + separator)


def _list_values(function: ast.FunctionDef | ast.AsyncFunctionDef, lines: Collection[int]) -> list[ast.expr]:
    """Return the expressions that a function returns or prints on these lines."""
    values: list[ast.expr] = []
    for node in _iter_own_nodes(function):
        if isinstance(node, (ast.Return, ast.Yield)) and node.value is not None and node.lineno in lines:
            values.append(node.value)
        elif isinstance(node, ast.Call) and node.args and node.lineno in lines:
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in _OUTPUT_CALLS and not isinstance(node.args[0], ast.Starred):
                values.append(node.args[0])
    return values


def _iter_own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of functions inside it."""
    for child in ast.iter_child_nodes(function):
        yield child
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            yield from _iter_own_nodes(child)


def _wrap_value(
    path: str, text: str, starts: list[int], value: ast.expr, function: str = _OTHER_VALUE
) -> list[FileEdit]:
    """Return the edits after which a value passes through a function."""
    begin = _find_position(text, starts, value.lineno, value.col_offset)
    end = _find_position(text, starts, value.end_lineno or value.lineno, value.end_col_offset or 0)
    return [
        FileEdit(path=path, start=begin, end=begin, new=function),
        FileEdit(path=path, start=end, end=end, new=_OTHER_VALUE_END),
    ]


def _find_position(text: str, starts: list[int], line: int, column: int) -> int:
    """Return the position of a column, which Python counts in bytes."""
    start = starts[line - 1]
    end = text.find("\n", start)
    row = text[start : len(text) if end < 0 else end]
    return start + (column if row.isascii() else len(row.encode()[:column].decode("utf-8", "replace")))
