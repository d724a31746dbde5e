"""What a file can do to tests from outside of them: hooks of pytest (see outcomes.py), lists of what is not collected, patching fixtures."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mngr.tmr.verify.legacy import outcomes, values
from mngr.tmr.verify.legacy.resolve import TooLong
from mngr.tmr.verify.legacy.source import Function, Module, is_fixture
from mngr.tmr.verify.legacy.walk import Walk
from mngr.tmr.verify.legacy.writing import dumped

Found = tuple[str, str, int, str, str]  # rule, level, line, what, shown

_REFUSED = frozenset(("mock", "program-replaced", "skip", "xfail", "ends-early", "dynamic-code", "writes-program"))
_LISTS = frozenset(("collect_ignore", "collect_ignore_glob", "pytest_plugins", "__test__"))
_KNOWN = frozenset("e2e capsys capfd tmp_path caplog monkeypatch runner cli client program mngr cli_runner".split())


def changed(old: Module | None, new: Module) -> Iterator[Found]:
    """What stands around the tests now and did not before."""
    yield from outcomes.changed(old, new)
    before = old.functions if old else {}
    for name, node in new.functions.items():
        if is_fixture(node) and name not in before:
            yield from _fixture(new, name, node)
    known = {dumped(node) for node in ast.walk(old.tree) if isinstance(node, ast.Try)} if old else set()
    for part in ast.walk(new.tree):
        if isinstance(part, ast.Try) and dumped(part) not in known and (name := _stands_in(part)):
            yield (
                "program-replaced",
                "refuse",
                part.lineno,
                f"the file defines its own {name} for the case that the import fails",
                "",
            )
    for name in old.imports if old else ():
        own = new.functions.get(name) or new.classes.get(name) or new.constants.get(name)
        if own is not None and (isinstance(own, ast.Lambda) or not new.traces(ast.Name(id=name, ctx=ast.Load()))):
            yield (
                "program-replaced",
                "refuse",
                own.lineno,
                f"{name} was imported, and the file now defines its own",
                "",
            )
    for name, source in old.imports.items() if old else ():
        framework = source.split(".")[0] in {"pytest", "unittest"} or source.startswith("mngr.e2e")
        now_from = new.imports.get(name, source)
        if framework and now_from != source and not now_from.startswith(("pytest", "unittest", "mngr.e2e")):
            yield (
                "program-replaced",
                "refuse",
                0,
                f"{name} is now imported from {now_from}, which may check nothing",
                "",
            )
    for name in _LISTS:
        now = new.constants.get(name)
        then = old.constants.get(name) if old else None
        if now is not None and (then is None or values.text(then) != values.text(now)):
            level = "note" if name == "pytest_plugins" else "refuse"
            yield "not-collected", level, now.lineno, f"{name} decides which tests run", values.text(now)
    for statement in new.body:
        target = _mutated(statement)
        if target and not (old and any(dumped(statement) == dumped(s) for s in old.body)):
            yield "not-collected", "refuse", statement.lineno, f"{target} is changed", values.text(statement)


def _fixture(module: Module, name: str, node: Function) -> Iterator[Found]:
    """A fixture that is new: one that comes by itself, or one that takes the place of a known one."""
    walk = Walk(module)
    try:
        returned = walk.unit(node)
    except TooLong:
        returned = None
    everywhere = any("autouse=True" in values.text(decorator) for decorator in node.decorator_list)
    for escape in walk.escapes if everywhere else []:
        if escape.rule in _REFUSED:
            yield (
                escape.rule,
                "refuse",
                escape.line or node.lineno,
                f"the fixture {name} does this in every test",
                escape.what,
            )
    if name in _KNOWN and not module.tests and (returned is None or not module.traces(returned)):
        yield (
            "fixture-stubbed",
            "refuse",
            node.lineno,
            f"the file's own fixture {name} replaces the real one",
            "",
        )


def _stands_in(node: ast.Try) -> str:
    """The name that is imported, or else made here."""
    imported = {
        alias.asname or alias.name for s in node.body if isinstance(s, ast.Import | ast.ImportFrom) for alias in s.names
    }
    for handler in node.handlers:
        for statement in handler.body:
            names = [getattr(statement, "name", "")]
            if isinstance(statement, ast.Assign) and not values.known(statement.value):
                names = [values.text(target) for target in statement.targets]
            for name in names:
                if name in imported:
                    return name
    return ""


def _mutated(statement: ast.stmt) -> str:
    """The list of tests to ignore that a statement adds to."""
    text = values.text(statement)
    for name in ("collect_ignore", "globals()", "sys.modules[__name__]"):
        if name in text and isinstance(statement, ast.Expr | ast.AugAssign | ast.Assign):
            return name
    return ""
