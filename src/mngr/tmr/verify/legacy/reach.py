"""Which tests an edit cannot have touched: they are as they were, and so is all of the file that they use."""

from __future__ import annotations

import ast
from collections import Counter

from mngr.tmr.verify.legacy import values
from mngr.tmr.verify.legacy.source import Module
from mngr.tmr.verify.legacy.writing import dumped


def untouched(old: Module, new: Module, has_tests: bool) -> set[str]:
    """The names of tests, or of functions where there are none, that need no comparing."""
    before, after = _units(old, has_tests), _units(new, has_tests)
    same = {name for name in before.keys() & after.keys() if before[name][1] == after[name][1]}
    differs = _differing(old, new)
    if not differs:
        return same
    everywhere = {"*", "pytestmark", "expect", *_autouse(old), *_autouse(new)}
    if differs & everywhere:
        return set()
    return {name for name in same if not used(after[name][0], new) & differs}


def first_changed(old: Module | None, new: Module | None, has_tests: bool) -> set[str]:
    """Those whose own text differs: they are looked at before the others."""
    if old is None or new is None:
        return set()
    before, after = _units(old, has_tests), _units(new, has_tests)
    return {name for name in before.keys() & after.keys() if before[name][1] != after[name][1]}


def _units(module: Module, has_tests: bool) -> dict[str, tuple[list[ast.AST], str]]:
    if has_tests:
        return {
            name: ([part for part in (test.node, test.owner) if part is not None], test.dump())
            for name, test in module.tests.items()
        }
    return {name: ([node], dumped(node)) for name, node in module.functions.items()}


def _differing(old: Module, new: Module) -> set[str]:
    """The names of the file that do not stand for what they stood for, tests aside."""
    before, after = _table(old), _table(new)
    found = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    rows, rows_now = (Counter(dumped(statement) for statement in module.body) for module in (old, new))
    for module, other in ((old, rows_now), (new, rows)):
        for statement in module.body:
            if dumped(statement) not in other:
                found |= _mentioned([statement])
    return found


def _table(module: Module) -> dict[str, str]:
    made = {name: f"import {source}" for name, source in module.imports.items()}
    for table in (module.functions, module.classes, module.constants):
        for name, node in table.items():
            made[name] = f"{dumped(node)}{module.conditions.get(name)}{name in module.off}"
    for name in module.tests:
        made.pop(name, None)
    return made


def _autouse(module: Module) -> set[str]:
    return {
        name
        for name, node in module.fixtures.items()
        if any("autouse" in values.text(decorator) for decorator in node.decorator_list)
    }


def used(nodes: list[ast.AST], module: Module) -> set[str]:
    """All names that these use, those that they use, and so on."""
    found: set[str] = set()
    todo = _mentioned(nodes)
    while todo:
        name = todo.pop()
        if name in found:
            continue
        found.add(name)
        node = module.functions.get(name) or module.classes.get(name) or module.constants.get(name)
        if node is not None:
            todo |= _mentioned([node]) - found
    return found


def _mentioned(nodes: list[ast.AST]) -> set[str]:
    """Names, arguments, and texts that may be names of fixtures."""
    found: set[str] = set()
    for node in nodes:
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                found.add(part.id)
            elif isinstance(part, ast.arg):
                found.add(part.arg)
            elif isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value.isidentifier():
                found.add(part.value)
    return found
