"""Hooks of pytest: what in them leaves tests out or changes how they end, and under which conditions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mngr.trust import reach, values
from mngr.trust.resolve import TooLong
from mngr.trust.source import Function, Module
from mngr.trust.walk import Walk
from mngr.trust.writing import dumped

TYPE_CHECKING = False
Found = tuple[str, str, int, str, str]  # rule, level, line, what, shown
Act = tuple[frozenset[str], str]  # what must hold for it, and what is done

_ANSWERS = frozenset(
    "pytest_runtest_makereport pytest_runtest_protocol pytest_pyfunc_call pytest_report_teststatus "
    "pytest_ignore_collect pytest_collect_file pytest_collect_directory pytest_pycollect_makeitem "
    "pytest_pycollect_makemodule pytest_runtestloop pytest_cmdline_main pytest_make_collect_report "
    "pytest_fixture_setup pytest_collection pytest_make_parametrize_id pytest_cmdline_parse".split()
)
_INSTEAD = frozenset(
    "pytest_runtest_makereport pytest_runtest_protocol pytest_pyfunc_call pytest_runtestloop pytest_cmdline_main".split()
)
_STARTS = frozenset(("pytest_configure", "pytest_sessionstart", "pytest_load_initial_conftests"))
_LEFT = frozenset(("pytest_make_parametrize_id", "pytest_report_teststatus"))
_NARROWS = re.compile(
    r"skip|xfail|deselect|Skipped|force_result|force_exception|usefixtures|pytest\.exit|shouldstop|shouldfail|session\.items"
)
_SETS = frozenset(
    "outcome longrepr wasxfail excinfo exitstatus obj runtest sections failed passed testsfailed testscollected result "
    "when callspec _obj _fixtureinfo keepduplicates keyword markexpr maxfail ignore ignore_glob deselect lf".split()
)
_DROPS = frozenset(("remove", "pop", "clear"))
_WORDS = re.compile(
    r"addopts|\boption\.|ignore|deselect|continue_on_collection_errors|args\[|args\.|unregister|set_blocked"
)
_REFUSED = frozenset(
    "mock program-replaced skip xfail ends-early dynamic-code writes-program not-collected".split()
)


def hook(old: Module | None, new: Module, name: str) -> Iterator[Found]:
    """What a hook that is new, or that was changed, does to the tests now."""
    node, before = new.functions[name], old.functions.get(name) if old else None
    if old is not None and before is not None and _closure(old, before) == _closure(new, node):
        return
    now, then = _acts(new, node), _acts(old, before) if old and before else []
    worse = [act for act in now if not any(act[1] == was[1] and act[0] >= was[0] for was in then)]
    shown = worse[0][1] if worse else ""
    level = "refuse" if worse else "note"
    yield (
        "hook",
        level,
        node.lineno,
        f"the hook {name} can change which tests are run and how they end",
        shown,
    )


def _closure(module: Module, node: Function) -> str:
    """The hook, and all of the file that it uses."""
    tables = (module.functions, module.classes, module.constants)
    used = sorted(reach.used([node], module))
    return dumped(node) + "".join(dumped(table[name]) for name in used for table in tables if name in table)


def _acts(module: Module, node: Function) -> list[Act]:
    """What it does to tests, its helpers included; names of the file stand for what they hold."""
    found = list(_Acts(module).of(node, frozenset(), 0))
    walk = Walk(module)
    try:
        walk.unit(node)
    except TooLong:
        found.append((frozenset(), "more than can be read"))
    named = {text for _, text in found}
    for escape in walk.escapes:
        if escape.rule in _REFUSED and not any(_NARROWS.search(text) for text in named):
            found.append((frozenset(), f"{escape.rule} {escape.what}"))
    return found


class _Acts:
    """A hook, statement by statement."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.name = ""
        self.wraps = False
        tables = (module.functions, module.constants, module.classes)
        self.held: dict[str, list[ast.AST]] = {
            name: [made] for table in tables for name, made in table.items()
        }

    def of(self, node: Function, under: frozenset[str], depth: int) -> Iterator[Act]:
        if depth == 0:
            self.name = node.name
            self.wraps = any("wrapper" in values.text(d).lower() for d in node.decorator_list)
            if node.name in _INSTEAD and not self.wraps:
                yield under, "it may answer in the place of pytest"
        for part in ast.walk(node):
            if isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name):
                self.held.setdefault(part.targets[0].id, []).append(part.value)
        yield from self._block(node.body, under, depth)

    def _block(self, body: list[ast.stmt], under: frozenset[str], depth: int) -> Iterator[Act]:
        for statement in body:
            yield from self._statement(statement, under, depth)
            if isinstance(statement, ast.If) and _leaves(statement.body) and not statement.orelse:
                under |= {self._plain(ast.UnaryOp(op=ast.Not(), operand=statement.test))}

    def _statement(self, node: ast.stmt, under: frozenset[str], depth: int) -> Iterator[Act]:
        match node:
            case ast.If(test=test, body=then, orelse=orelse):
                yield from self._expression(test, under, depth)
                parts = (
                    test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
                )
                yield from self._block(then, under | {self._plain(part) for part in parts}, depth)
                negative = self._plain(ast.UnaryOp(op=ast.Not(), operand=test))
                yield from self._block(orelse, under | {negative}, depth)
            case ast.For(iter=over, body=then, orelse=orelse):
                yield from self._expression(over, under, depth)
                yield from self._block([*then, *orelse], under, depth)
            case ast.With(body=then) | ast.While(body=then):
                yield from self._block(then, under, depth)
            case ast.Try(body=then, handlers=handlers, orelse=orelse, finalbody=final):
                quiet = [h for h in handlers if not any(isinstance(s, ast.Raise) for s in ast.walk(h))]
                if quiet and any(isinstance(part, ast.Yield) for s in then for part in ast.walk(s)):
                    yield under, "what a test raises is swallowed"
                inner = [s for handler in handlers for s in handler.body]
                yield from self._block([*then, *inner, *orelse, *final], under, depth)
            case ast.Assign(targets=targets, value=made):
                for target in targets:
                    yield from self._set(target, made, under)
                yield from self._expression(made, under, depth)
            case ast.AugAssign(target=target, value=made):
                yield from self._set(target, made, under)
            case ast.Delete(targets=targets):
                if any(isinstance(target, ast.Subscript) for target in targets):
                    yield under, self._plain(node)
            case ast.Return(value=made) if made is not None:
                yield from self._expression(made, under, depth)
                silent = self.wraps or values.value(made) in (None, False)
                answers = depth == 0 and self.name in _ANSWERS - _LEFT and not silent
                if answers or (self.name == "pytest_report_teststatus" and "passed" in self._plain(made)):
                    yield under, self._plain(node)
            case ast.Raise():
                if re.search(r"(?i)skip|exit|xfail|interrupt", values.text(node)):
                    yield under, self._plain(node)
            case ast.Expr(value=made):
                yield from self._expression(made, under, depth)

    def _set(self, target: ast.expr, made: ast.expr, under: frozenset[str]) -> Iterator[Act]:
        """Something of a test or of its report is replaced; a list is cut, unless it is only put in another order."""
        if isinstance(target, ast.Attribute) and target.attr in _SETS:
            yield under, f"{values.text(target)} = {self._plain(made)}"
        elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Slice):
            ordered = re.match(r"sorted\(|list\(reversed\(|reversed\(|random\.sample\(", values.text(made))
            apart = isinstance(made, ast.BinOp) and isinstance(made.op, ast.Add)
            if not ordered and not apart:
                yield under, f"{values.text(target)} = {self._plain(made)}"

    def _expression(self, node: ast.expr, under: frozenset[str], depth: int) -> Iterator[Act]:
        for part in ast.walk(node):
            if not isinstance(part, ast.Call):
                continue
            text, last = self._plain(part), values.text(part.func).rsplit(".", 1)[-1]
            if isinstance(part.func, ast.Name) and part.func.id in self.module.functions and depth < 3:
                yield from self.of(self.module.functions[part.func.id], under, depth + 1)
            narrowing = last in {"add_marker", "skip", "xfail", "exit"} and _NARROWS.search(text)
            if narrowing or re.search(r"deselect|force_|skipTest|Skipped", values.text(part.func)):
                yield under, text
            elif last in _DROPS or last in {"setattr", "__setattr__"}:
                plain = last == "setattr" and re.search(r"rep|report", text) and not _replaces(part)
                if not plain:
                    yield under, text
            elif self.name in _STARTS and _WORDS.search(text):
                yield under, text

    def _plain(self, node: ast.AST) -> str:
        """An expression as text, with what names of the file hold."""
        told = [re.sub(r"reason=('[^']*'|\"[^\"]*\")", "", values.text(node))]
        todo, seen = [node], set[str]()
        while todo:
            for part in ast.walk(todo.pop()):
                if isinstance(part, ast.Name) and part.id in self.held and part.id not in seen:
                    seen.add(part.id)
                    told += [f"{part.id}={values.text(made)}" for made in self.held[part.id]]
                    todo += self.held[part.id]
        return " ".join(told)


def _replaces(node: ast.Call) -> bool:
    """Whether `setattr` may put something in the place of an attribute that counts."""
    named = values.value(node.args[1]) if len(node.args) > 1 else None
    return isinstance(named, str) and named in _SETS


def _leaves(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Return | ast.Continue | ast.Break | ast.Raise)
