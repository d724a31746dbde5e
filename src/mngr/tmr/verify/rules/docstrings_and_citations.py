"""Finds changed promises of tests: docstrings and cited tutorial blocks. Also finds edits that change only words."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mngr.tmr.finding import Finding
from mngr.tmr.verify.rules.python_source import (
    FunctionNode,
    format_name,
    get_last_part,
    is_docstring,
    is_test_name,
    list_functions,
    parse_source,
)


def list_changed_promises(old: str | None, new: str | None, path: str, kind: str) -> Iterator[Finding]:
    """Yield a finding for each test whose docstring or cited block changed. Only a `FIX_TUTORIAL` may do that."""
    old_tree, new_tree = (parse_source(text) if path.endswith(".py") else None for text in (old, new))
    if old_tree is None or new_tree is None:
        return
    old_functions, new_functions = list_functions(old_tree), list_functions(new_tree)
    level = "note" if kind == "FIX_TUTORIAL" else "refuse"
    for name in old_functions.keys() & new_functions.keys():
        if is_test_name(name):
            before, after = old_functions[name], new_functions[name]
            yield from _compare_docstrings(name, before, after, path, level)
            yield from _compare_blocks(name, before, after, path, level)


def _compare_docstrings(
    name: str, before: FunctionNode, after: FunctionNode, path: str, level: str
) -> Iterator[Finding]:
    old, new = ast.get_docstring(before), ast.get_docstring(after)
    if old == new:
        return
    line = after.lineno if new is None else after.body[0].lineno
    what = f"{name} gets a docstring" if old is None else f"{name} promises something else now: its docstring changed"
    level = "note" if old is None else level
    yield Finding(rule="policy-docstring", level=level, path=path, line=line, what=what, old=old or "", new=new or "")


def _compare_blocks(name: str, before: FunctionNode, after: FunctionNode, path: str, level: str) -> Iterator[Finding]:
    old, new = _map_blocks(before), _map_blocks(after)
    removed = [text for text in old if text not in new]
    if removed:
        line = next((line for text, line in new.items() if text not in old), after.lineno)
        what = f"{name} no longer cites one of its blocks"
        yield Finding(rule="policy-block", level=level, path=path, line=line, what=what, old=removed[0])


def _map_blocks(function: FunctionNode) -> dict[str, int]:
    """Return the line of each block that a test cites. White space at the ends of its lines does not matter."""
    blocks: dict[str, int] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and get_last_part(format_name(node.func, {})) == "write_tutorial_block":
            texts = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
            text = "\n".join(texts) or ast.unparse(node)
            blocks["\n".join(line.strip() for line in text.strip().splitlines())] = node.lineno
    return blocks


def find_first_changed_line(old: str | None, new: str | None) -> int:
    """Return the first line that differs, or 0 without two texts."""
    if old is None or new is None or old == new:
        return 0
    old_lines, new_lines = old.splitlines(), new.splitlines()
    for line, (before, after) in enumerate(zip(old_lines, new_lines, strict=False), 1):
        if before != after:
            return line
    return len(old_lines) + 1 if len(new_lines) > len(old_lines) else len(new_lines)


def is_only_words(old: str | None, new: str | None) -> bool:
    """True when two modules differ only in docstrings and comments."""
    old_tree, new_tree = parse_source(old), parse_source(new)
    if old_tree is None or new_tree is None:
        return False
    try:
        return _dump_without_docstrings(old_tree) == _dump_without_docstrings(new_tree)
    except RecursionError:
        return False


def _dump_without_docstrings(tree: ast.Module) -> str:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            node.body = node.body[1:] if is_docstring(node.body[0]) else node.body
    return ast.dump(tree)
