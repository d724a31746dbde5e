"""A test file as the rules see it: its functions with their checks and the rows of data that they go through."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property

from mngr.tmr.verify.rules.checks import Check, is_check_call, list_checks
from mngr.tmr.verify.rules.python_source import (
    FunctionNode,
    format_name,
    get_last_part,
    is_test_name,
    list_functions,
    map_imports,
    walk_own_nodes,
)


class TestSource:
    """One state of a test file."""

    __test__ = False  # pytest must not collect it

    def __init__(self, tree: ast.Module, only_test: str = "") -> None:
        """`only_test` is the one test that is judged, without its file; empty: all of them."""
        self.tree = tree
        self._only_test = only_test
        self.origins = map_imports(tree)
        self.functions = list_functions(tree)
        self.constants = {
            target.id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        self._checks: dict[str, list[Check]] = {}

    @cached_property
    def tests(self) -> dict[str, FunctionNode]:
        """The functions that pytest collects."""
        return {name: node for name, node in self.functions.items() if is_test_name(name)}

    @cached_property
    def judged(self) -> dict[str, FunctionNode]:
        """The functions that are judged: the wanted tests, and everything that is no test."""
        return {name: node for name, node in self.functions.items() if not self._only_test or self._is_judged(name)}

    def _is_judged(self, name: str) -> bool:
        outer = name
        while "::" in outer and outer not in self.tests:
            outer = outer.rpartition("::")[0]
        return outer == self._only_test or outer not in self.tests

    @cached_property
    def checking_functions(self) -> frozenset[str]:
        """The names of the file's own functions that check something, also by calling another one."""
        calls: dict[str, set[str]] = {}
        checking: set[str] = set()
        for name, node in self.functions.items():
            short = name.rpartition("::")[2]
            own = calls.setdefault(short, set())
            calls.setdefault(name.rpartition("::")[0].rpartition("::")[2], set()).add(short)  # a function in a function
            for part in walk_own_nodes(node):
                if isinstance(part, ast.Assert | ast.Raise):
                    checking.add(short)
                elif isinstance(part, ast.Call):
                    own.add(get_last_part(format_name(part.func, self.origins)))
                    if is_check_call(part, self.origins, frozenset()):
                        checking.add(short)
        while added := {name for name, called in calls.items() if name not in checking and called & checking}:
            checking |= added
        return frozenset(name for name in checking if not name.startswith("test"))

    def get_checks(self, name: str) -> list[Check]:
        """Return the checks of a function, including those of functions that are defined in it and used there."""
        if name not in self._checks:
            checks = list_checks(self.functions[name], self.origins, self.checking_functions)
            self._checks[name] = checks
        return self._checks[name]

    def count_checks(self, names: Iterable[str]) -> Counter[str]:
        """Return how often each check occurs in these functions."""
        return Counter(check.text for name in names for check in self.get_checks(name))

    def count_rows(self, name: str) -> Counter[str]:
        """Return the rows of data of a function: the cases of `parametrize`, and of loops that contain a check."""
        node = self.functions[name]
        return Counter(ast.unparse(row) for source in self._list_row_sources(node) for row in self._list_rows(source))

    def _list_row_sources(self, node: FunctionNode) -> Iterator[ast.expr]:
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and format_name(decorator.func, self.origins).endswith("parametrize"):
                yield from decorator.args[1:2]
                yield from (keyword.value for keyword in decorator.keywords if keyword.arg == "argvalues")
        for part in walk_own_nodes(node):
            if isinstance(part, ast.For) and any(self._is_check(inner) for inner in walk_own_nodes(part)):
                yield part.iter

    def _is_check(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Call):
            return is_check_call(node, self.origins, self.checking_functions)
        return isinstance(node, ast.Assert)

    def _list_rows(self, source: ast.expr) -> list[ast.expr]:
        if isinstance(source, ast.Call) and isinstance(source.func, ast.Attribute) and source.func.attr == "items":
            source = source.func.value
        if isinstance(source, ast.Name):
            source = self.constants.get(source.id, source)
        if isinstance(source, ast.List | ast.Tuple | ast.Set):
            return source.elts
        if isinstance(source, ast.Dict):
            return [
                ast.Tuple(elts=[key, value], ctx=ast.Load())
                for key, value in zip(source.keys, source.values, strict=True)
                if key
            ]
        return []
