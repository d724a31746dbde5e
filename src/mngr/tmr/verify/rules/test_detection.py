"""Finds code of the implementation that looks for tests: it imports pytest, reads its variables, or examines the call stack."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from mngr.tmr.finding import Finding
from mngr.tmr.verify.rules.changed_file import ChangedFile
from mngr.tmr.verify.rules.python_source import fold_texts, format_name, map_imports, parse_source

_TEST_TOOLS = frozenset(("pytest", "_pytest", "unittest", "nose", "hypothesis"))
_FRAME_CALLS = frozenset(
    ("inspect.stack", "inspect.currentframe", "inspect.trace", "inspect.getouterframes", "inspect.getframeinfo")
) | frozenset(("sys._getframe", "sys._current_frames", "traceback.extract_stack", "traceback.walk_stack"))
_FRAME_CALLS |= frozenset(("traceback.format_stack", "traceback.print_stack"))
_VARIABLE = re.compile(r"PYTEST_|\bPYTEST\b|MNGR_TEST|TOX_|_PYTEST")
_TOOL_NAME = re.compile(r"_?pytest|py\.test|_pytest\..*|unittest")
_TEST_PATH = re.compile(r"(^|/)tests?/|(^|/)test_[\w*]+\.py$|_test\.py$|(^|/)conftest\.py$")
_ALWAYS_EQUAL = frozenset(("__eq__", "__contains__", "__bool__", "__ne__", "__lt__", "__gt__", "__le__", "__ge__"))

Sight = tuple[str, str, int, str]  # rule, code, line, sentence


def list_test_detections(change: ChangedFile) -> Iterator[Finding]:
    """Yield each place where new code of the implementation looks for tests or answers every comparison."""
    new = parse_source(change.new)
    if new is None:
        return
    old = parse_source(change.old)
    known = Counter((rule, code) for rule, code, _, _ in _list_sights(old)) if old is not None else Counter()
    for rule, code, line, what in sorted(set(_list_sights(new)), key=lambda sight: (sight[2], sight[0])):
        if known[rule, code]:
            known[rule, code] -= 1
            continue
        yield Finding(rule=rule, level="note", path=change.path, line=line, what=what)


def _list_sights(tree: ast.Module) -> Iterator[Sight]:
    origins = map_imports(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from _judge_import(node)
        elif isinstance(node, ast.Call):
            name = format_name(node.func, origins)
            if name in _FRAME_CALLS:
                yield (
                    "reads-stack",
                    ast.unparse(node),
                    node.lineno,
                    f"the implementation examines the call stack with {name}",
                )
            if name.endswith(("import_module", "__import__", "find_spec")) and _is_tool(node.args):
                yield "imports-pytest", ast.unparse(node), node.lineno, "the implementation imports a test tool"
        elif isinstance(node, ast.Attribute) and node.attr in ("f_back", "tb_frame"):
            yield "reads-stack", ast.unparse(node), node.lineno, "the implementation examines the call stack"
        elif isinstance(node, ast.FunctionDef) and node.name in _ALWAYS_EQUAL and (value := _find_only_result(node)):
            what = f"{node.name} answers {value} whatever it is compared with"
            yield "always-equal", ast.unparse(node), node.lineno, what
    yield from _list_texts(tree)


def _judge_import(node: ast.Import | ast.ImportFrom) -> Iterator[Sight]:
    names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
    for name in names:
        if name.split(".")[0] in _TEST_TOOLS and not getattr(node, "level", 0):
            yield "imports-pytest", name, node.lineno, f"the implementation imports {name}"


def _is_tool(args: list[ast.expr]) -> bool:
    return any(isinstance(arg, ast.Constant) and _TOOL_NAME.fullmatch(str(arg.value)) for arg in args)


def _list_texts(tree: ast.Module) -> Iterator[Sight]:
    for text, line in fold_texts(tree):
        if len(text) > 300:
            continue
        if _VARIABLE.search(text):
            yield "reads-test-variable", text, line, f"the implementation names the test runner's variable {text!r}"
        elif _TOOL_NAME.fullmatch(text):
            yield "detects-pytest", text, line, f"the implementation asks for {text!r}"
        elif _TEST_PATH.search(text):
            yield "opens-tests", text, line, f"the implementation names a file of the tests: {text!r}"


def _find_only_result(node: ast.FunctionDef) -> str:
    """Return the constant that a method always returns, or an empty string."""
    body = [part for part in node.body if not isinstance(part, ast.Expr)]
    match body:
        case [ast.Return(value=ast.Constant(value=bool() as value))]:
            return str(value)
    return ""
