"""Hooks of pytest: what in them leaves tests out or changes how they end, and under which conditions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mngr.tmr.verify.legacy import reach, values
from mngr.tmr.verify.legacy.resolve import Fill, TooLong
from mngr.tmr.verify.legacy.source import Function, Module
from mngr.tmr.verify.legacy.walk import Walk
from mngr.tmr.verify.legacy.writing import dumped

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
_REFUSED = frozenset("mock program-replaced skip xfail ends-early dynamic-code writes-program not-collected".split())


def changed(old: Module | None, new: Module) -> Iterator[Found]:
    """What the hooks that are new, or that were changed, do to the tests now."""
    before = _hooks(old) if old else {}
    for key, (name, node) in _hooks(new).items():
        then: list[Act] = []
        if old is not None and key in before:
            if _closure(old, before[key][1]) == _closure(new, node):
                continue
            then = _acts(old, *before[key])
        worse = [act for act in _acts(new, name, node) if not any(act[1] == w[1] and act[0] >= w[0] for w in then)]
        what = f"the hook {name} can change which tests run and how they end"
        yield "hook", "refuse" if worse else "note", node.lineno, what, worse[0][1][:200] if worse else ""
    for name in new.imports:
        if name.startswith("pytest_") and not (old and name in old.imports):
            yield "hook", "note", 0, f"the hook {name} comes from another file", new.imports[name]


def _hooks(module: Module) -> dict[str, tuple[str, Function]]:
    """Functions of the file, and methods of its classes, that pytest may call: under their own name or another."""
    places = [
        ("", module.functions),
        *((name, module.methods(made)) for name, made in module.classes.items()),
    ]
    found = {}
    for place, functions in places:
        for own, node in functions.items():
            named = [
                str(values.value(k.value))
                for d in node.decorator_list
                for k in getattr(d, "keywords", [])
                if k.arg == "specname"
            ]
            name = named[0] if named else own
            if name.startswith("pytest_"):
                found[f"{place}.{own}"] = (name, node)
    return found


def _closure(module: Module, node: Function) -> str:
    """The hook, and all of the file that it uses."""
    tables = (module.functions, module.classes, module.constants)
    used = sorted(reach.used([node], module))
    return dumped(node) + "".join(dumped(table[name]) for name in used for table in tables if name in table)


def _acts(module: Module, name: str, node: Function) -> list[Act]:
    """What it does to tests, its helpers included; names of the file stand for what they hold."""
    found = list(_Acts(module, name).of(node, frozenset(), 0))
    walk = Walk(module)
    try:
        walk.unit(node)
    except TooLong:
        found.append((frozenset(), "it is too long to read"))
    named = {text for _, text in found}
    for escape in walk.escapes:
        seen = escape.what.startswith("setattr(") or any(_NARROWS.search(text) for text in named)
        if escape.rule in _REFUSED and not seen:
            found.append((frozenset(), f"{escape.rule} {escape.what}"))
    return found


class _Acts:
    """A hook, statement by statement."""

    def __init__(self, module: Module, name: str) -> None:
        self.module = module
        self.name = name
        self.wraps = False
        tables = (module.functions, module.constants, module.classes)
        self.held: dict[str, list[ast.AST]] = {name: [made] for table in tables for name, made in table.items()}

    def of(self, node: Function, under: frozenset[str], depth: int) -> Iterator[Act]:
        if depth == 0:
            self.wraps = any("wrapper" in values.text(d).lower() for d in node.decorator_list)
            if self.name in _INSTEAD and not self.wraps:
                yield under, "it may answer instead of pytest"
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
                parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
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
                    yield under, "it suppresses exceptions of tests"
                inner = [s for handler in handlers for s in handler.body]
                yield from self._block([*then, *inner, *orelse, *final], under, depth)
            case ast.Assign(targets=targets, value=made):
                for target in targets:
                    yield from self._set(target, made, under)
                yield from self._expression(made, under, depth)
            case ast.AugAssign(target=ast.Name(id="args")):
                yield under, self._plain(node)
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
            if ".mark." in values.text(part.func):
                continue  # it counts where it is put on a test
            narrowing = last in {"add_marker", "skip", "xfail", "exit"} and _NARROWS.search(text)
            if narrowing or re.search(r"deselect|force_|skipTest|Skipped", values.text(part.func)):
                yield under, text
            elif last in _DROPS or last in {"setattr", "__setattr__"}:
                plain = last == "setattr" and re.search(r"rep|report", text) and not _replaces(part)
                if not plain:
                    yield under, text
            elif self.name in _STARTS and _WORDS.search(text):
                yield under, text

    def _plain(self, node: ast.AST, depth: int = 0) -> str:
        """An expression as text, with what names of the file hold."""
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        held = {name: self.held[name] for name in names if name in self.held}
        once = {name: made[0] for name, made in held.items() if len(made) == 1 and isinstance(made[0], ast.expr)}
        if once and depth < 4:
            return self._plain(Fill(once).visit(values.copied(node)), depth + 1)
        told = [re.sub(r"reason=('[^']*'|\"[^\"]*\")", "", values.text(node))]
        told += [f"{name}={values.text(made)}" for name in sorted(held) for made in held[name]]
        return " ".join(told)


def _replaces(node: ast.Call) -> bool:
    """Whether `setattr` may put something in the place of an attribute that counts."""
    named = values.value(node.args[1]) if len(node.args) > 1 else None
    return isinstance(named, str) and named in _SETS


def _leaves(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Return | ast.Continue | ast.Break | ast.Raise)
