"""Finds checks, rows of data and tests that an edit removes without a replacement, and notes those that it replaces."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from mngr.tmr.finding import Finding
from mngr.tmr.verify.rules.checks import Check
from mngr.tmr.verify.rules.expectations import is_other_expectation
from mngr.tmr.verify.rules.python_source import FunctionNode, is_docstring
from mngr.tmr.verify.rules.test_source import TestSource
from mngr.tmr.verify.rules.vacuous_checks import explain_vacuous

_INNER = (ast.stmt, ast.ExceptHandler, ast.match_case)
_NO_DATA = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Import, ast.ImportFrom)


def list_removals(old: TestSource, new: TestSource, path: str) -> Iterator[Finding]:
    """Yield what the new state of a test file checks no longer."""
    comparison = _Comparison(old, new, path)
    for name in old.judged:
        if name in new.functions:
            yield from comparison.compare_function(name)
        elif name in old.tests:
            yield comparison.report_removed_test(name)
    yield from comparison.compare_module()


def list_deleted_tests(old: TestSource, path: str) -> Iterator[Finding]:
    """Yield a finding for each test of a deleted file."""
    for name, node in (item for item in old.tests.items() if item[0] in old.judged):
        what = f"{name} was deleted with its file"
        yield Finding(rule="test-removed", level="refuse", path=path, line=node.lineno, what=what)


class _Comparison:
    def __init__(self, old: TestSource, new: TestSource, path: str) -> None:
        self._old, self._new, self._path = old, new, path
        self._gained_in_file = self._count_effective() - old.count_checks(old.functions)
        self._moved = new.count_checks(name for name in new.functions if name not in old.functions)
        self._gained_rows = self._count_rows(new) - self._count_rows(old)

    def _count_effective(self) -> Counter[str]:
        """Count the checks of the new file, without those that cannot fail."""
        checks = [check for name in self._new.functions for check in self._new.get_checks(name)]
        return Counter(check.text for check in checks if not explain_vacuous(check.node, self._new.origins))

    def _count_rows(self, source: TestSource) -> Counter[str]:
        rows: Counter[str] = Counter()
        for name in source.functions:
            rows += source.count_rows(name)
        return rows

    def _build_finding(self, rule: str, level: str, line: int, what: str, before: str = "", after: str = "") -> Finding:
        return Finding(rule=rule, level=level, path=self._path, line=line, what=what, old=before, new=after)

    def compare_function(self, name: str) -> Iterator[Finding]:
        old_checks, new_checks = self._old.get_checks(name), self._new.get_checks(name)
        lost = _list_unmatched_checks(old_checks, new_checks)
        gained = _list_unmatched_checks(new_checks, old_checks)
        vacuous = [(check, why) for check in gained if (why := explain_vacuous(check.node, self._new.origins))]
        for check, why in vacuous:
            yield self._build_finding(
                "always-true", "refuse", check.line, f"{name}: this check cannot fail: {why}", "", check.text
            )
        effective = [check for check in gained if all(check is not other for other, _ in vacuous)]
        moved = [check for check in lost if self._gained_in_file[check.text] or check.text in self._moved]
        if moved:
            line = self._new.functions[name].lineno
            what = f"{name}: another function of the file now contains its check"
            yield self._build_finding("check-moved", "note", line, what, moved[0].text)
        lost = [check for check in lost if check not in moved]
        helper = self._find_new_helper(name)
        if lost and effective:
            if is_other_expectation(lost, effective):
                what = f"{name}: it expects another value of the same expression"
                yield self._build_finding(
                    "expectation-changed", "note", effective[0].line, what, lost[0].text, effective[0].text
                )
            else:
                yield self._report_replaced(name, lost, effective[0].line, effective[0].text, len(effective))
        elif lost and helper:
            yield self._report_replaced(name, lost, self._new.functions[name].lineno, helper, 1)
        else:
            yield from (self._report_removed(name, check, new_checks) for check in lost)
        yield from self._compare_rows(name, bool(effective))
        if not lost:
            yield from self._compare_rest(name, bool(gained))

    def _find_new_helper(self, name: str) -> str:
        """Return a function of the file with new checks that this function newly uses, or an empty string."""
        before = _list_used_names(self._old.functions[name]) if name in self._old.functions else set()
        used = _list_used_names(self._new.functions[name]) - before
        candidates = sorted(used & self._new.checking_functions - self._old.checking_functions)
        return candidates[0] if candidates and self._gained_in_file else ""

    def _report_replaced(self, name: str, lost: list[Check], line: int, after: str, gained: int) -> Finding:
        what = f"{name}: the edit replaces {_count(len(lost), 'check')} with {_count(gained, 'other check')}"
        return self._build_finding("check-replaced", "note", line, what, lost[0].text, after)

    def _report_removed(self, name: str, check: Check, left: list[Check]) -> Finding:
        stronger = next((other for other in left if _covers_other_check(other, check)), None)
        if stronger is not None:
            what = f"{name}: the edit removes a check that `{stronger.text[:100]}` implies"
            return self._build_finding("check-redundant", "note", stronger.line, what, check.text)
        return self._build_finding(
            "check-removed",
            "refuse",
            check.line,
            f"{name}: the edit removes a check, and nothing replaces it",
            check.text,
        )

    def _compare_rows(self, name: str, has_new_checks: bool) -> Iterator[Finding]:
        old_rows, new_rows = self._old.count_rows(name), self._new.count_rows(name)
        lost = old_rows - new_rows
        if not lost:
            return
        line = self._new.functions[name].lineno
        is_replaced = has_new_checks or bool(self._gained_rows) or bool(self._gained_in_file)
        rule, level = ("rows-replaced", "note") if is_replaced else ("rows-removed", "refuse")
        verb, outcome = ("replaces", "") if is_replaced else ("removes", ", and nothing replaces this data")
        what = f"{name}: the edit {verb} {_count(lost.total(), 'row')} of test data{outcome}"
        yield self._build_finding(rule, level, line, what, next(iter(lost)), next(iter(new_rows - old_rows), ""))

    def _compare_rest(self, name: str, has_new_checks: bool) -> Iterator[Finding]:
        """Yield a note when a function does something else around the same checks."""
        before, after = (_list_statements(source, name, not has_new_checks) for source in (self._old, self._new))
        changed = [(pair[0][0], pair[1]) for pair in zip(before, after, strict=False) if pair[0][0] != pair[1][0]]
        if not changed and (len(before) == len(after) or self._only_gains_checks(name, len(before), after)):
            return
        end = after[len(before)] if len(after) > len(before) else ("", self._new.functions[name].lineno)
        old_code, (new_code, line) = changed[0] if changed else ("", end)
        what = f"{name}: the checks are the same, but the edit changes other code of the function"
        yield self._build_finding("code-changed", "note", line, what, old_code[:200], new_code[:200])

    def _only_gains_checks(self, name: str, count: int, after: list[tuple[str, int]]) -> bool:
        """True when a function only gains code with checks behind its old code, which cannot affect the old checks."""
        gained = len(self._new.get_checks(name)) > len(self._old.get_checks(name))
        added = after[count:]
        ends_early = any(code.startswith(("break", "continue", "return")) for code, _ in added)
        is_behind = min((line for _, line in added), default=0) > max(line for _, line in after[:count])
        return gained and is_behind and not ends_early

    def compare_module(self) -> Iterator[Finding]:
        """Yield a note for each changed statement outside of functions, such as the data of tests."""
        known = {ast.unparse(node) for node in _list_module_statements(self._old.tree)}
        for node in _list_module_statements(self._new.tree):
            code = ast.unparse(node)
            if code not in known:
                yield self._build_finding(
                    "code-changed", "note", node.lineno, "the edit changes code outside the tests", "", code[:200]
                )

    def report_removed_test(self, name: str) -> Finding:
        """Return a refusal, or a note when other functions of the file gained as many checks as the test had."""
        checks = self._old.get_checks(name)
        new_names = [other for other in self._new.functions if other not in self._old.functions]
        new_tests = [other for other in new_names if other in self._new.tests]
        by_tests = self._new.count_checks(self._new.tests) - self._old.count_checks(self._old.tests)
        gained = self._gained_in_file.total() + self._moved.total() if new_tests or by_tests else 0
        is_repeated = any(_contains_statements(node, self._old.functions[name]) for node in self._new.tests.values())
        if gained >= max(1, len(checks)) or self._gained_rows or is_repeated or (new_tests and not checks):
            line = self._new.functions[new_names[0]].lineno if new_names else 0
            what = f"{name} no longer exists, but the file contains at least as many new checks or rows of data"
            return self._build_finding("test-replaced", "note", line, what)
        line = self._old.functions[name].lineno
        return self._build_finding(
            "test-removed", "refuse", line, f"{name} was removed, or pytest no longer collects it"
        )


def _contains_statements(function: FunctionNode, removed: FunctionNode) -> bool:
    """True when a function contains every statement of a removed one, apart from its docstring."""
    statements = {ast.unparse(part) for part in ast.walk(function) if isinstance(part, ast.stmt)}
    return all(ast.unparse(part) in statements for part in removed.body if not is_docstring(part))


def _list_used_names(function: FunctionNode) -> set[str]:
    names = {part.arg for part in ast.walk(function) if isinstance(part, ast.arg)}
    return names | {part.id for part in ast.walk(function) if isinstance(part, ast.Name)}


def _list_module_statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements outside of functions, also those of classes, without imports and docstrings."""
    pending: list[ast.stmt] = list(tree.body)
    while pending:
        node = pending.pop(0)
        if isinstance(node, ast.ClassDef):
            pending = [*node.body, *pending]
        elif not isinstance(node, _NO_DATA) and not is_docstring(node):
            yield node


def _list_statements(source: TestSource, name: str, with_checks: bool) -> list[tuple[str, int]]:
    """Return the code and line of each decorator, header and simple statement of a function, without docstrings."""
    function = source.functions[name]
    checks = [] if with_checks else source.get_checks(name)
    lines = {check.line for check in checks if not check.text.startswith("subprocess.")}
    keyword = "async def" if isinstance(function, ast.AsyncFunctionDef) else "def"
    statements = [(ast.unparse(node), node.lineno) for node in function.decorator_list]
    statements.append((f"{keyword} {function.name}({ast.unparse(function.args)})", function.lineno))
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop(0)
        inner = [child for child in ast.iter_child_nodes(node) if isinstance(child, _INNER)]
        pending = [*inner, *pending]
        if isinstance(node, ast.stmt) and not is_docstring(node) and (inner or not _has_line(node, lines)):
            statements.append((ast.unparse(node).split("\n")[0] if inner else ast.unparse(node), node.lineno))
    return statements


def _has_line(node: ast.stmt, lines: set[int]) -> bool:
    return any(node.lineno <= line <= (node.end_lineno or node.lineno) for line in lines)


def _list_unmatched_checks(checks: list[Check], others: list[Check]) -> list[Check]:
    """Return the checks whose text is not among the others, each occurrence counted."""
    left = Counter(check.text for check in others)
    missing: list[Check] = []
    for check in checks:
        if left[check.text]:
            left[check.text] -= 1
        else:
            missing.append(check)
    return missing


def _covers_other_check(check: Check, other: Check) -> bool:
    """True when a check compares a whole value for equality, and the other one looks at a part of the same value."""
    subject = _find_equated(check.node)
    if subject is None or check.guards or check.swallowed_at or isinstance(subject, ast.Constant):
        return False
    other_subject = _find_equated(other.node)
    if other_subject is not None and ast.dump(other_subject) == ast.dump(subject):
        return False
    return any(isinstance(part, ast.expr) and ast.dump(part) == ast.dump(subject) for part in ast.walk(other.node))


def _find_equated(node: ast.expr) -> ast.expr | None:
    """Return the value that a check compares by `==` or `to_equal`, or None for another check."""
    match node:
        case ast.Compare(left=left, ops=[ast.Eq()]):
            return left
        case ast.Call(func=ast.Attribute(value=ast.Call(args=[subject]), attr="to_equal")):
            return subject
    return None


def _count(number: int, noun: str) -> str:
    return f"one {noun}" if number == 1 else f"{number} {noun}s"
