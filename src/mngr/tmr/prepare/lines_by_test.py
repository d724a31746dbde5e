"""Which lines each test runs, and which tests a change of the code can affect."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Mapping, Sequence

from mngr.base.model import Struct
from mngr.tmr.runners.test_run import SuiteLines


class FileChange(Struct):
    """A file before and after a change; None where it does not exist or is no text."""

    path: str
    old: str | None
    new: str | None


class AffectedTests:
    """Finds the tests that a change can affect, by the lines that they ran before it."""

    def __init__(self, lines: SuiteLines, sources: Mapping[str, str]) -> None:
        """`sources` are the texts of the project's Python files before the change."""
        self._lines, self._sources = lines, sources
        self._imports: dict[str, list[tuple[int, str]]] = {}
        self._files_by_module = lines.modules
        self._reached: dict[str, set[str]] = {}
        reached_by_any = set().union(*(self._list_reached(test) for test in lines.tests), set())
        # Nobody knows which test needs a module that no test imports, so all tests do.
        self._always_reached = set(lines.modules.values()) - reached_by_any

    def find(self, changes: Sequence[FileChange]) -> set[str] | None:
        """Return the known tests that the changes can affect, or None for all tests."""
        affected: set[str] = set()
        for change in changes:
            if not change.path.endswith(".py") or change.old is None or change.new is None:
                return None
            spans = list_changed_spans(change.old, change.new)
            if spans is None:
                return None
            for first, last, runs_at_import in spans:
                affected |= self._list_users(change.path, set(range(first, last + 1)), runs_at_import)
        return affected

    def _list_users(self, path: str, span: set[int], runs_at_import: bool) -> set[str]:
        """Return the tests that ran a line of the span, or that reach the file if importing it runs the span."""
        if runs_at_import or not span.isdisjoint(self._lines.outside.get(path, ())):
            return {
                test for test in self._lines.tests if path in self._always_reached or path in self._list_reached(test)
            }
        return {test for test, files in self._lines.tests.items() if not span.isdisjoint(files.get(path, ()))}

    def _list_reached(self, test: str) -> set[str]:
        """Return the files that a test imports, directly or not, or in which it runs a line."""
        if test not in self._reached:
            own_lines = self._lines.tests[test]
            path = test.partition("::")[0]
            waiting = [path, *_list_conftests(path), *own_lines]
            reached: set[str] = set()
            while waiting:
                file = waiting.pop()
                if file in reached:
                    continue
                reached.add(file)
                ran = own_lines.get(file, ())
                waiting += [target for line, target in self._list_imports(file) if line == 0 or line in ran]
            self._reached[test] = reached
        return self._reached[test]

    def _list_imports(self, path: str) -> list[tuple[int, str]]:
        """Return the project's files that a file imports, each with 0, or with the line if a function imports it."""
        if path not in self._imports:
            try:
                tree = ast.parse(self._sources.get(path, ""))
            except SyntaxError:
                tree = ast.Module(body=[], type_ignores=[])
            in_functions = {id(node) for node in _iter_in_functions(tree)}
            module = next((name for name, file in self._files_by_module.items() if file == path), "")
            package = module if path.endswith("__init__.py") else module.rpartition(".")[0]
            self._imports[path] = [
                (node.lineno if id(node) in in_functions else 0, self._files_by_module[name])
                for node in ast.walk(tree)
                if isinstance(node, (ast.Import, ast.ImportFrom))
                for name in _list_imported_names(node, package)
                if name in self._files_by_module
            ]
        return self._imports[path]


def list_changed_spans(old: str, new: str) -> list[tuple[int, int, bool]] | None:
    """Return the first and last old line of each changed statement, and whether importing the file runs it.

    Return None when the texts cannot be parsed. A change of comments alone changes no statement.
    """
    try:
        old_tree, new_tree = ast.parse(old), ast.parse(new)
    except (SyntaxError, ValueError):
        return None
    if ast.dump(old_tree) == ast.dump(new_tree):
        return []
    in_functions = {id(node) for node in _iter_in_functions(old_tree)}
    spans: dict[tuple[int, int], bool] = {}
    for tag, first, last in _list_differences(old.splitlines(), new.splitlines()):
        # An insertion changes what runs after the line before it and before the line after it.
        numbers = [first, first + 1] if tag == "insert" else range(first + 1, last + 1)
        for number in numbers:
            statement = _find_statement(old_tree, number)
            if statement is None:
                spans.setdefault((number, number), True)
            else:
                spans[_get_span(statement)] = id(statement) not in in_functions
    return [(first, last, runs_at_import) for (first, last), runs_at_import in sorted(spans.items())]


def _list_differences(old: Sequence[str], new: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return the kind and the range of old lines of each difference."""
    shortest = min(len(old), len(new))
    start = next((number for number in range(shortest) if old[number] != new[number]), shortest)
    rest = shortest - start
    end = next((number for number in range(rest) if old[-1 - number] != new[-1 - number]), rest)
    # difflib is slow on long texts, so it gets only the part that differs.
    matcher = difflib.SequenceMatcher(None, old[start : len(old) - end], new[start : len(new) - end], autojunk=False)
    return [(tag, start + first, start + last) for tag, first, last, _, _ in matcher.get_opcodes() if tag != "equal"]


def _iter_in_functions(tree: ast.AST) -> Iterable[ast.AST]:
    """Return all nodes in the bodies of functions."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for statement in node.body:
                yield from ast.walk(statement)


def _find_statement(tree: ast.AST, number: int) -> ast.stmt | None:
    """Return the smallest statement whose lines, decorators included, contain a line; else the next one before it."""
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    containing = [node for node in statements if _get_start(node) <= number <= (node.end_lineno or node.lineno)]
    if containing:
        return min(containing, key=lambda node: (node.end_lineno or node.lineno) - _get_start(node))
    earlier = [node for node in statements if (node.end_lineno or node.lineno) < number]
    return max(earlier, key=lambda node: (node.end_lineno or node.lineno, node.lineno), default=None)


def _get_start(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _get_span(node: ast.stmt) -> tuple[int, int]:
    """Return the lines of a statement; of a compound statement only its head."""
    body = getattr(node, "body", None)
    last = node.end_lineno or node.lineno
    if isinstance(body, list) and body:
        last = max(node.lineno, _get_start(body[0]) - 1)
    return _get_start(node), last


def _list_imported_names(node: ast.Import | ast.ImportFrom, package: str) -> list[str]:
    """Return the names of all modules that an import statement can load."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    else:
        parents = package.split(".") if node.level else []
        prefix = ".".join(parents[: len(parents) - node.level + 1]) if node.level else ""
        base = ".".join(filter(None, [prefix, node.module]))
        names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return [".".join(name.split(".")[: depth + 1]) for name in names for depth in range(name.count(".") + 1)]


def _list_conftests(path: str) -> list[str]:
    folders = path.split("/")[:-1]
    return ["/".join([*folders[:depth], "conftest.py"]) for depth in range(len(folders) + 1)]
