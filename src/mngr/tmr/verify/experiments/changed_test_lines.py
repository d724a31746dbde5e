"""Finds the test function of a claim in its file, and the lines that the claim changes."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Sequence

from mngr.tmr.prepare.root_causes import is_test_code, is_test_file
from mngr.tmr.runners.test_run import TestFunction
from mngr.tmr.verify.rules.changed_file import ChangedFile

_DOC_SUFFIXES = (".md", ".rst")
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def find_function(tree: ast.Module, test: TestFunction) -> FunctionNode | None:
    """Return the test's function, or None if the file does not define it under this name."""
    body: list[ast.stmt] = tree.body
    *classes, name = test.id.split("::")[1:] or [""]
    for class_name in classes:
        found = [node for node in body if isinstance(node, ast.ClassDef) and node.name == class_name]
        if not found:
            return None
        body = found[-1].body
    functions = [node for node in body if isinstance(node, FunctionNode) and node.name == name]
    return functions[-1] if functions else None


def parse_function(text: str, test: TestFunction) -> FunctionNode | None:
    """Return the test's function in the text of its file, or None if there is none."""
    try:
        return find_function(ast.parse(text), test)
    except (SyntaxError, ValueError, RecursionError):
        return None


def list_changed_lines(change: ChangedFile) -> list[int]:
    """Return the lines of the new text that differ from the old one, or that follow a removed line."""
    old, new = (change.old or "").splitlines(), (change.new or "").splitlines()
    lines: set[int] = set()
    for tag, _, _, start, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            lines |= set(range(start + 1, end + 1)) or {min(start + 1, max(1, len(new)))}
    return sorted(lines)


def list_changed_tests(change: ChangedFile, test: TestFunction) -> list[str]:
    """Return the ids of the other tests of a file that are new or changed."""
    old, new = (_dump_tests(text or "", change.path) for text in (change.old, change.new))
    return [test_id for test_id, dump in new.items() if test_id != test.id and old.get(test_id) != dump]


def _dump_tests(text: str, path: str) -> dict[str, str]:
    """Return the syntax tree of each test function in a file, by its id."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return {}
    owners = [(path, body)]
    owners += [(f"{path}::{node.name}", node.body) for node in body if isinstance(node, ast.ClassDef)]
    return {
        f"{prefix}::{node.name}": ast.dump(node)
        for prefix, nodes in owners
        for node in nodes
        if isinstance(node, FunctionNode) and node.name.startswith("test")
    }


def is_test_changed(changes: Sequence[ChangedFile], test: TestFunction) -> bool:
    """True when a claim changes the test itself, or code or data that it shares with other tests."""
    for change in changes:
        if change.path == test.path:
            old, new = (_dump_tests(text or "", change.path).get(test.id) for text in (change.old, change.new))
            if new is None or old != new or _dump_rest(change.old) != _dump_rest(change.new):
                return True
        elif is_test_code(change.path) and not is_test_file(change.path) and not change.path.endswith(_DOC_SUFFIXES):
            return True
    return False


def _dump_rest(text: str | None) -> list[str]:
    """Return the syntax tree of a file without its tests and imports."""
    try:
        body = ast.parse(text or "").body
    except (SyntaxError, ValueError, RecursionError):
        return []
    statements = [inner for node in body for inner in (node.body if isinstance(node, ast.ClassDef) else [node])]
    return [
        ast.dump(node)
        for node in statements
        if not isinstance(node, (ast.Import, ast.ImportFrom))
        and not (isinstance(node, FunctionNode) and node.name.startswith("test"))
    ]


def find_changed_line(change: ChangedFile | None, test: TestFunction) -> int:
    """Return the first changed line of the test's function, else of its file. Return the test's line if none changed."""
    lines = [] if change is None else list_changed_lines(change)
    function = None if change is None or change.new is None else parse_function(change.new, test)
    if function is not None:
        first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
        inside = [line for line in lines if first <= line <= (function.end_lineno or first)]
        lines = inside or lines
    return lines[0] if lines else test.line or 0
