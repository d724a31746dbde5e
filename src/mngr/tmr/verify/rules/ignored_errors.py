"""Finds new code of the implementation that ignores errors, and checks that it no longer makes."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from mngr.tmr.finding import Finding
from mngr.tmr.verify.rules.changed_file import ChangedFile
from mngr.tmr.verify.rules.checks import BROAD_EXCEPTIONS
from mngr.tmr.verify.rules.python_source import FunctionNode, format_name, list_functions, map_imports, parse_source


def list_ignored_errors(change: ChangedFile) -> Iterator[Finding]:
    """Yield a note for each new handler that ignores an error, and for each function with fewer `raise` statements."""
    new, old = parse_source(change.new), parse_source(change.old)
    if new is None:
        return
    known = Counter(code for code, _, _ in _list_handlers(old)) if old is not None else Counter()
    for code, line, what in _list_handlers(new):
        if known[code]:
            known[code] -= 1
            continue
        yield Finding(rule="error-ignored", level="note", path=change.path, line=line, what=what)
    yield from _list_removed_errors(old, new, change.path)


def _list_handlers(tree: ast.Module) -> Iterator[tuple[str, int, str]]:
    """Yield the code, the line and a sentence for each handler that ignores errors."""
    origins = map_imports(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and _ignores_error(node):
            caught = "all errors" if node.type is None else ast.unparse(node.type)
            yield ast.unparse(node), node.lineno, f"the new code catches {caught} and does not report the error"
        elif isinstance(node, ast.Call) and format_name(node.func, origins) == "contextlib.suppress":
            yield ast.unparse(node), node.lineno, f"the new code ignores errors: {ast.unparse(node)[:80]}"


def _ignores_error(handler: ast.ExceptHandler) -> bool:
    """True when a handler of all errors does not raise one, and when another handler only goes on."""
    if any(isinstance(node, ast.Raise) for node in ast.walk(handler)):
        return False
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    if any(kind is None or ast.unparse(kind).rpartition(".")[2] in BROAD_EXCEPTIONS for kind in types):
        return True
    return all(_only_goes_on(node) for node in handler.body)


def _only_goes_on(node: ast.stmt) -> bool:
    match node:
        case ast.Pass() | ast.Continue() | ast.Break() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Return(value=value):
            return value is None or isinstance(value, ast.Constant)
    return False


def _list_removed_errors(old: ast.Module | None, new: ast.Module, path: str) -> Iterator[Finding]:
    """Yield a note for each function that has fewer `raise` statements than before."""
    if old is None:
        return
    before, after = list_functions(old), list_functions(new)
    for name in before.keys() & after.keys():
        lost = _count_raises(before[name]) - _count_raises(after[name])
        if lost > 0:
            line = _find_first_new_line(before[name], after[name])
            what = f"{name} has fewer raise statements than before"
            yield Finding(rule="raise-removed", level="note", path=path, line=line, what=what)


def _count_raises(function: FunctionNode) -> int:
    return sum(isinstance(node, ast.Raise) for node in ast.walk(function))


def _find_first_new_line(before: FunctionNode, after: FunctionNode) -> int:
    """Return the line of the first statement that the old function does not have."""
    known = {ast.dump(node) for node in ast.walk(before) if isinstance(node, ast.stmt)}
    lines = [node.lineno for node in after.body if ast.dump(node) not in known]
    return lines[0] if lines else after.lineno
