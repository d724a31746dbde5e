"""Finds code that changes how tests run or report: hooks and settings of pytest, plugins, patches of the test tools."""

from __future__ import annotations

import ast
import configparser
import tomllib
from collections.abc import Iterator

from mngr.base.model import Struct
from mngr.tmr.finding import Finding
from mngr.tmr.verify.rules.changed_file import ChangedFile
from mngr.tmr.verify.rules.docstrings_and_citations import find_first_changed_line
from mngr.tmr.verify.rules.python_source import format_name, get_last_part, map_imports, parse_source

# These hooks prepare a run and cannot change how a test ends.
_HARMLESS_HOOKS = frozenset(
    ("pytest_addoption", "pytest_report_header", "pytest_generate_tests", "pytest_make_parametrize_id")
)
_NOTED_HOOKS = frozenset(("pytest_configure", "pytest_unconfigure", "pytest_sessionstart", "pytest_addhooks"))
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_TOOLS = frozenset(("pytest", "_pytest", "unittest", "builtins", "pluggy"))
_SETTINGS_SECTIONS = ("pytest", "tool:pytest")


class _Part(Struct):
    """A part of a file that changes how tests run."""

    rule: str
    level: str
    code: str
    line: int
    what: str


def list_pytest_settings_changes(change: ChangedFile) -> Iterator[Finding]:
    """Yield a finding when a changed settings file changes pytest's settings or plugins."""
    if not change.path.endswith((".toml", ".cfg", ".ini")):
        return
    if _read_pytest_settings(change.path, change.old) != _read_pytest_settings(change.path, change.new):
        line = find_first_changed_line(change.old, change.new)
        what = "pytest's settings or plugins change"
        yield Finding(rule="policy-pytest", level="refuse", path=change.path, line=line, what=what)


def list_harness_changes(change: ChangedFile) -> Iterator[Finding]:
    """Yield what a changed Python file adds or alters of the machinery that runs tests."""
    new = parse_source(change.new) if change.path.endswith(".py") else None
    if new is None:
        return
    old = parse_source(change.old)
    known = {part.code for part in _list_machinery(old)} if old is not None else set()
    for part in _list_machinery(new):
        if part.code not in known:
            yield Finding(rule=part.rule, level=part.level, path=change.path, line=part.line, what=part.what)


def _make_part(rule: str, node: ast.stmt | ast.expr, what: str, level: str = "refuse") -> _Part:
    return _Part(rule=rule, level=level, code=ast.dump(node), line=node.lineno, what=what)


def _list_machinery(tree: ast.Module) -> Iterator[_Part]:
    origins = map_imports(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("pytest_"):
            if node.name not in _HARMLESS_HOOKS:
                level = "note" if node.name in _NOTED_HOOKS else "refuse"
                yield _make_part("hook-changed", node, f"the hook {node.name} can change how tests end", level)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            for alias in node.names:
                if alias.name.startswith("pytest_") and isinstance(node, ast.ImportFrom):
                    yield _make_part("hook-changed", node, f"the hook {alias.name} comes from another file", "note")
                if (getattr(node, "module", None) or alias.name).split(".")[0] == "_pytest":
                    yield _make_part("test-tool-changed", node, "it uses pytest's internals")
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            yield from _judge_assignment(node, origins)
        elif isinstance(node, ast.Call):
            yield from _judge_call(node, origins)
    yield from _list_automatic_fixtures(tree)


def _judge_assignment(node: ast.Assign | ast.AugAssign | ast.AnnAssign, origins: dict[str, str]) -> Iterator[_Part]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in targets:
        base = target.value if isinstance(target, ast.Attribute | ast.Subscript) else target
        name = format_name(target if isinstance(target, ast.Attribute) else base, origins)
        if isinstance(target, ast.Attribute) and name.split(".")[0] in _TOOLS:
            yield _make_part("test-tool-changed", node, f"it replaces {name}")
        if name == "sys.modules":
            yield _make_part("test-tool-changed", node, "it replaces an imported module")
        if name == "pytest_plugins":
            yield _make_part("plugin-added", node, "it loads a plugin of pytest")


def _judge_call(node: ast.Call, origins: dict[str, str]) -> Iterator[_Part]:
    name = format_name(node.func, origins)
    if name in ("sys.settrace", "sys.setprofile", "threading.settrace", "gc.get_objects", "gc.get_referrers"):
        yield _make_part("test-tool-changed", node, f"it uses {name}, which reaches into the test process")
    elif get_last_part(name) == "setattr" and node.args:
        first = node.args[0]
        target = first.value if isinstance(first, ast.Constant) else format_name(first, origins)
        if isinstance(target, str) and target.split(".")[0] in _TOOLS:
            yield _make_part("test-tool-changed", node, f"it replaces a part of {target}")
    elif name.endswith("pluginmanager.register"):
        yield _make_part("plugin-added", node, "it registers a plugin of pytest")


def _list_automatic_fixtures(tree: ast.Module) -> Iterator[_Part]:
    for node in ast.walk(tree):
        decorators = getattr(node, "decorator_list", []) if isinstance(node, _FUNCTIONS) else []
        if isinstance(node, _FUNCTIONS) and any("autouse=True" in ast.unparse(part) for part in decorators):
            what = f"the fixture {node.name} runs around every test of its folder or file"
            yield _make_part("fixture-changed", node, what, "note")


def _read_pytest_settings(path: str, text: str | None) -> list[object]:
    """Return pytest's part of a settings file: its section, and the plugins that the project installs."""
    parts: list[object] = [None, None]
    try:
        if text is not None and path.endswith(".toml"):
            table = tomllib.loads(text)
            parts = [
                table.get("tool", {}).get("pytest"),
                table.get("project", {}).get("entry-points", {}).get("pytest11"),
            ]
        elif text is not None:
            parser = configparser.ConfigParser(interpolation=None, strict=False)
            parser.read_string(text)
            parts = [dict(parser[name]) if parser.has_section(name) else None for name in _SETTINGS_SECTIONS]
    except (tomllib.TOMLDecodeError, configparser.Error, AttributeError, RecursionError):
        return [text]
    return parts
