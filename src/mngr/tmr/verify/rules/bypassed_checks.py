"""Finds what lets a test pass although its checks are still there: skips, swallowed failures, mocks and early exits."""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections import Counter
from collections.abc import Iterator

from mngr.base.model import Struct
from mngr.tmr.finding import Finding
from mngr.tmr.verify.rules.checks import NEVER, Check, is_broad, list_hidden_lines
from mngr.tmr.verify.rules.python_source import (
    FunctionNode,
    format_code,
    format_name,
    get_last_part,
    walk_own_nodes,
)
from mngr.tmr.verify.rules.test_source import TestSource

_SKIPS = frozenset(("skip", "skipif", "skipIf", "skipUnless", "skipTest", "SkipTest", "importorskip"))
_EXPECTED_FAILURES = frozenset(("xfail", "expectedFailure", "add_marker", "applymarker"))
_RETRIES = frozenset(("flaky", "retry", "retrying", "repeat", "rerun", "retries"))
_EXITS = frozenset(("sys.exit", "os._exit", "os.abort", "pytest.exit", "os.kill", "exit", "quit"))
_PATCHES = frozenset(("setattr", "patch", "object", "dict", "multiple", "setitem", "delattr", "spy", "stub"))
_PATCHERS = re.compile(r"patch|mock|^setattr$", re.I)
_PROGRAM_RUNNERS = frozenset(
    ("run", "Popen", "check_output", "check_call", "call", "system", "which", "exec", "create_subprocess_exec")
)
_PLATFORM_WORDS = ("sys.platform", "os.name", "platform.", "sys.version_info", "shutil.which")
_RAISES = ("raises", "assertRaises")
_TEST_MODULES = ("pytest", "unittest", "mngr", "_pytest")


class _Bypass(Struct):
    rule: str
    level: str
    line: int
    code: str
    what: str


def list_bypasses(old: TestSource | None, new: TestSource, path: str) -> Iterator[Finding]:
    """Yield what the new state of a test file bypasses and the old state did not. In a new file, only notes."""
    known = Counter((bypass.rule, bypass.code) for bypass in _list_all(old)) if old is not None else Counter()
    for bypass in sorted(_list_all(new), key=lambda bypass: bypass.line):
        if known[bypass.rule, bypass.code]:
            known[bypass.rule, bypass.code] -= 1
            continue
        level = bypass.level if old is not None else "note"
        yield Finding(rule=bypass.rule, level=level, path=path, line=bypass.line, what=bypass.what, new=bypass.code)
    if old is not None:
        yield from _list_replaced_names(old, new, path)
        for name in old.judged.keys() & new.judged.keys():
            yield from _compare_guards(name, old.get_checks(name), new.get_checks(name), path)


def _list_all(source: TestSource) -> Iterator[_Bypass]:
    for name, node in source.judged.items():
        yield from _list_in_function(source, name, node)
    for statement in source.tree.body:
        yield from _list_in_module(source, statement)


def _list_in_function(source: TestSource, name: str, node: FunctionNode) -> Iterator[_Bypass]:
    for decorator in node.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        yield from _judge_mark(source, name, decorator, format_name(target, source.origins))
    decorator_parts = {id(part) for decorator in node.decorator_list for part in ast.walk(decorator)}
    for part in walk_own_nodes(node):
        if isinstance(part, ast.Call) and id(part) not in decorator_parts:
            yield from _judge_call(source, name, node, part)
        elif isinstance(part, ast.Raise) and part.exc is not None:
            error = part.exc.func if isinstance(part.exc, ast.Call) else part.exc
            if format_name(error, source.origins).endswith(("SkipTest", "skip.Exception")):
                yield _build_bypass("skip-added", part, f"{name} is skipped")
        elif isinstance(part, ast.Assign | ast.AugAssign):
            yield from _judge_assignment(source, name, node, part)
    for line in list_hidden_lines(node, source.origins):
        what = f"{name} hides the failures of the code that it runs"
        yield _Bypass(rule="failure-swallowed", level="refuse", line=line, code=f"{name}: try", what=what)
    for check in source.get_checks(name):
        yield from _judge_check(name, check, source.origins)


def _list_in_module(source: TestSource, statement: ast.stmt) -> Iterator[_Bypass]:
    """Yield what a statement outside of functions bypasses: marks for the whole file, and lists of ignored tests."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    for node in ast.walk(statement):
        targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else [getattr(node, "target", None)]
        names = [get_last_part(format_name(target, {})) for target in targets if isinstance(target, ast.expr)]
        if isinstance(node, ast.Assign) and "pytestmark" in names:
            marks = node.value.elts if isinstance(node.value, ast.List | ast.Tuple) else [node.value]
            for mark in marks:
                target = mark.func if isinstance(mark, ast.Call) else mark
                yield from _judge_mark(source, "every test of the file", mark, format_name(target, source.origins))
        is_list = any(name.startswith("collect_ignore") or name == "__test__" for name in names)
        is_deleted = isinstance(node, ast.Delete) and any(name.startswith(("test", "Test")) for name in names)
        is_unset = isinstance(node, ast.Assign) and any(name.startswith("test_") for name in names)
        if isinstance(node, ast.stmt) and (is_list or is_deleted or is_unset):
            yield _build_bypass("not-collected", node, "this decides that pytest does not collect a test")
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            name = get_last_part(format_name(node.value.func, source.origins))
            if name in _SKIPS | _EXPECTED_FAILURES and node in getattr(source.tree, "body", []):
                yield _build_bypass("skip-added", node, "every test of the file is skipped")
        if isinstance(node, ast.ClassDef):
            for decorator in node.decorator_list:
                target = decorator.func if isinstance(decorator, ast.Call) else decorator
                yield from _judge_mark(source, node.name, decorator, format_name(target, source.origins))


def _build_bypass(rule: str, node: ast.stmt | ast.expr, what: str, level: str = "refuse") -> _Bypass:
    return _Bypass(rule=rule, level=level, line=node.lineno, code=format_code(node), what=what)


def _judge_mark(source: TestSource, name: str, node: ast.expr, dotted: str) -> Iterator[_Bypass]:
    last = get_last_part(dotted)
    code = format_code(node)
    if last in _SKIPS:
        is_for_platform = last.lower() != "skip" and any(word in code for word in _PLATFORM_WORDS)
        yield _build_bypass("skip-added", node, f"{name} can be skipped", "note" if is_for_platform else "refuse")
    elif last in _EXPECTED_FAILURES:
        yield _build_bypass("xfail-added", node, f"{name} may fail and still count as passed")
    elif last in _RETRIES:
        yield _build_bypass("retry-added", node, f"{name} is repeated until it passes")
    elif last == "parametrize" and any(word in code for word in ("marks=pytest.mark.skip", "marks=pytest.mark.xfail")):
        yield _build_bypass("skip-added", node, f"{name}: some of its cases can be skipped")
    elif last == "filterwarnings":
        yield _build_bypass("warnings-filtered", node, f"{name} ignores warnings", "note")
    elif isinstance(node, ast.Call) and dotted.startswith(("unittest.mock", "mock.")) and last in _PATCHES:
        yield from _judge_patch(source, name, set(), node)


def _judge_call(source: TestSource, name: str, function: FunctionNode, node: ast.Call) -> Iterator[_Bypass]:
    dotted = format_name(node.func, source.origins)
    last, root = get_last_part(dotted), dotted.split(".")[0]
    if last in _SKIPS and root in ("pytest", "unittest", "self"):
        yield _build_bypass("skip-added", node, f"{name} can be skipped")
    elif last in _EXPECTED_FAILURES and root in ("pytest", "request", "unittest"):
        yield _build_bypass("xfail-added", node, f"{name} may fail and still count as passed")
    elif dotted in _EXITS:
        yield _build_bypass("early-exit", node, f"{name} ends the process before its checks can fail")
    elif dotted in ("time.sleep", "asyncio.sleep", "anyio.sleep", "trio.sleep"):
        yield _build_bypass("sleep-added", node, f"{name} waits for a fixed time", "note")
    elif last in ("setenv", "prepend", "putenv") and _is_constant(node, "PATH"):
        yield _build_bypass("program-replaced", node, f"{name} changes where programs are found")
    elif last in _PATCHES and _PATCHERS.search(ast.unparse(node.func)):
        yield from _judge_patch(source, name, _list_called_names(source, function), node)


def _is_constant(node: ast.Call, value: str) -> bool:
    return bool(node.args) and isinstance(node.args[0], ast.Constant) and node.args[0].value == value


def _list_called_names(source: TestSource, function: FunctionNode) -> set[str]:
    """Return the names of the functions that a test calls, and of what it imports from the project."""
    return {
        get_last_part(format_name(part.func, source.origins))
        for part in walk_own_nodes(function)
        if isinstance(part, ast.Call)
    }


def _judge_patch(source: TestSource, name: str, called: set[str], node: ast.Call) -> Iterator[_Bypass]:
    """Yield a refusal when a mock replaces a function that the test itself calls, or the start of programs."""
    words = [argument.value for argument in node.args[:2] if isinstance(argument, ast.Constant)]
    target = ".".join(str(word) for word in words)
    if node.args and not isinstance(node.args[0], ast.Constant):
        target = f"{format_name(node.args[0], source.origins)}.{target}"
    root, last = target.split(".")[0], get_last_part(target)
    is_under_test = last in called or (root not in sys.stdlib_module_names and last in source.origins)
    is_program = last in _PROGRAM_RUNNERS and "subprocess" in target
    if is_under_test or is_program:
        yield _build_bypass("subject-mocked", node, f"{name} replaces {target}, which it is meant to test")
    else:
        yield _build_bypass("mock-added", node, f"{name} replaces {target or 'something'}", "note")


def _judge_assignment(
    source: TestSource, name: str, function: FunctionNode, node: ast.Assign | ast.AugAssign
) -> Iterator[_Bypass]:
    """Yield a refusal when a test assigns to a function of an imported module, or to PATH."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in targets:
        code = ast.unparse(target)
        if code in ("os.environ['PATH']", "environ['PATH']"):
            yield _build_bypass("program-replaced", node, f"{name} changes where programs are found")
        if not isinstance(target, ast.Attribute):
            continue
        dotted = format_name(target, source.origins)
        if target.attr.startswith("assert"):
            yield _build_bypass("name-replaced", node, f"{name} replaces {dotted}")
        is_module = ast.unparse(target.value).split(".")[0] in source.origins
        if is_module and target.attr in _list_called_names(source, function):
            yield _build_bypass("subject-mocked", node, f"{name} replaces {dotted}, which it is meant to test")


def _judge_check(name: str, check: Check, origins: dict[str, str]) -> Iterator[_Bypass]:
    if check.swallowed_at:
        what = f"{name}: a failure of this check is caught and ignored in line {check.swallowed_at}"
        yield _Bypass(rule="failure-swallowed", level="refuse", line=check.line, code=check.text, what=what)
    if NEVER in check.guards:
        what = f"{name}: this check never runs"
        yield _Bypass(rule="check-unreachable", level="refuse", line=check.line, code=check.text, what=what)
    node = check.node
    is_raises = isinstance(node, ast.Call) and get_last_part(format_name(node.func, origins)) in _RAISES
    if is_raises and isinstance(node, ast.Call) and node.args and is_broad(node.args[0], origins):
        what = f"{name}: every exception satisfies this check"
        has_text = any(keyword.arg == "match" for keyword in node.keywords)
        level = "note" if has_text else "refuse"
        yield _Bypass(rule="broad-raises", level=level, line=check.line, code=check.text, what=what)


def _compare_guards(name: str, old: list[Check], new: list[Check], path: str) -> Iterator[Finding]:
    """Yield a finding for each check that used to run always and now runs only under a condition."""
    always = Counter(check.text for check in old if not check.guards)
    always.subtract(check.text for check in new if not check.guards)
    was_always, is_always = (any(not check.guards for check in checks) for checks in (old, new))
    for check in new:
        conditions = [guard for guard in check.guards if guard != NEVER]
        if not conditions or NEVER in check.guards:
            continue
        is_same = always[check.text] > 0
        if is_same or (was_always and not is_always):
            always[check.text] -= 1
            is_branch = any(not guard.startswith("for ") for guard in conditions)
            what = f"{name}: this check now runs only under a condition: {conditions[0][:100]}"
            level = "refuse" if is_branch else "note"
            yield Finding(rule="check-conditional", level=level, path=path, line=check.line, what=what, new=check.text)


def _list_replaced_names(old: TestSource, new: TestSource, path: str) -> Iterator[Finding]:
    """Yield a refusal for each imported or built-in name that the file now defines itself."""
    for node in new.tree.body:
        names: list[str] = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        for name in names:
            is_own = name in old.functions or name in old.constants
            is_imported = name in old.origins and not name.startswith("_")
            is_builtin = hasattr(builtins, name) and not name.startswith("__")
            if (is_imported or is_builtin) and not is_own:
                origin = old.origins.get(name, "Python")
                what = f"the file now defines {name} itself, which came from {origin.strip('.')}"
                yield Finding(rule="name-replaced", level="refuse", path=path, line=node.lineno, what=what)
    for name, origin in old.origins.items():
        now = new.origins.get(name, origin)
        if origin.startswith(_TEST_MODULES) and not now.startswith(_TEST_MODULES):
            what = f"{name} now comes from {now} instead of {origin}"
            yield Finding(rule="name-replaced", level="refuse", path=path, line=_find_import(new, name), what=what)


def _find_import(source: TestSource, name: str) -> int:
    imports = [node for node in ast.walk(source.tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    lines = [node.lineno for node in imports for alias in node.names if (alias.asname or alias.name) == name]
    return lines[0] if lines else 0
