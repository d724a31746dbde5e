"""Writes files of the implementation in which a probe decorates the functions that a fix changes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mngr.tmr.verify.experiments.changed_test_lines import FunctionNode
from mngr.tmr.verify.experiments.code_in_test_file import write_loader
from mngr.tmr.verify.mutants.mutant_selection import is_python
from mngr.tmr.verify.rules.changed_file import ChangedFile
from mngr.tmr.verify.rules.python_source import is_docstring, parse_source

_MAX_FUNCTIONS = 12  # of one file


def list_probed_functions(change: ChangedFile) -> list[str]:
    """Return the changed functions that both versions have. If other code changes too, return all functions of both."""
    old, new = parse_source(change.old), parse_source(change.new)
    if old is None or new is None:
        return []
    before, after = dict(_iter_functions(old.body)), dict(_iter_functions(new.body))
    shared = [name for name in after if name in before]
    changed = [name for name in shared if ast.dump(before[name]) != ast.dump(after[name])]
    return (changed or shared)[:_MAX_FUNCTIONS]


def write_probed_file(text: str, names: list[str], call: str) -> str | None:
    """Return the file with a probe around these functions, or None if mngr cannot write it. `call` creates the probe."""
    tree = parse_source(text)
    if tree is None:
        return None
    functions = dict(_iter_functions(tree.body))
    lines = text.splitlines(keepends=True)
    for name in sorted((name for name in names if name in functions), key=lambda name: -functions[name].lineno):
        node = functions[name]
        lines.insert(node.lineno - 1, f"{' ' * node.col_offset}@_mngr_probe({name!r})\n")
    first = _find_first_statement(tree)
    lines.insert(
        first - 1,
        f"{write_loader('similar_values.py', 'similar_calls.py')}_mngr_probe = _mngr['SimilarCallsDecorator']({call})\n",
    )
    new_text = "".join(lines)
    return new_text if is_python(new_text) else None


def _iter_functions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, FunctionNode]]:
    """Yield the functions of a module and of its classes, by their qualified names."""
    for node in body:
        if isinstance(node, FunctionNode):
            yield f"{prefix}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from _iter_functions(node.body, f"{prefix}{node.name}.")


def _find_first_statement(tree: ast.Module) -> int:
    """Return the line of the first statement after the docstring and imports of `__future__`."""
    for node in tree.body:
        is_future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not is_future and not is_docstring(node):
            decorators: list[ast.expr] = getattr(node, "decorator_list", [])
            return min([node.lineno, *(decorator.lineno for decorator in decorators)])
    return len(tree.body) + 1
