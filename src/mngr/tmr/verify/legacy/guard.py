"""Whether an edit made a test weaker: the old file against the new one, by their syntax trees."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Sequence
from typing import Any

from mngr.base.model import Struct
from mngr.tmr.finding import Finding
from mngr.tmr.verify.legacy import (
    answers,
    asking,
    escapes,
    handed,
    hardness,
    hooks,
    prepared,
    reach,
    together,
    values,
    written,
)
from mngr.tmr.verify.legacy.around import added, silent
from mngr.tmr.verify.legacy.checks import Check
from mngr.tmr.verify.legacy.matching import Matcher
from mngr.tmr.verify.legacy.resolve import Escape, TooLong
from mngr.tmr.verify.legacy.scene import Scene, callee
from mngr.tmr.verify.legacy.source import WORK, Function, Module, Test, own_nodes
from mngr.tmr.verify.legacy.walk import Walk, module_walk
from mngr.tmr.verify.legacy.writing import dumped


class Contract(Struct):
    """What tests promise: for each by name, its docstring and the blocks it cites."""

    docs: dict[str, str] = {}

    def of(self, name: str) -> str:
        """The words for one test, however its name is given."""
        short = name.rsplit("::", 1)[-1]
        found = [text for key, text in self.docs.items() if key.split("[")[0].rsplit("::", 1)[-1] == short]
        return "\n".join(found)


class Unit(Struct):
    """What one test, or one function that tests use, came to."""

    name: str
    line: int
    checks: list[Check]
    escapes: list[Escape]
    actions: list[ast.Call]
    asked: asking.Asked
    side: answers.Side
    written: list[written.Written]
    text: str = ""  # its own, to be compared
    doc: str = ""
    returned: ast.expr | None = None
    cut: bool = False  # it is longer than what was looked at
    together: together.Together | None = None  # what of a test runs at the same time


def weakened(
    old: str | None, new: str | None, path: str, *, contract: Contract, tests: Sequence[str] = ()
) -> list[Finding]:
    """What in the new text of a test file says less than the old one did. None: there is no such file."""
    try:
        before = Module(old) if old is not None else None
    except (SyntaxError, ValueError, RecursionError):
        before = None
    try:
        after = Module(new) if new is not None else None
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", 0) or 0
        return [
            _finding(
                "does-not-parse", "refuse", path, line, "the new file is not valid Python, so none of its tests run"
            )
        ]
    except RecursionError:
        return [_finding("too-long", "refuse", path, 0, "this file is too large to compare")]
    try:
        made = _Guard(before, after, path, contract, tests).findings()
    except (RecursionError, TooLong):
        return [_finding("too-long", "refuse", path, 0, "this file is too large to compare")]
    return sorted(made, key=lambda found: (found.level != "refuse", found.line))


def _finding(rule: str, level: str, path: str, line: int, what: str, old: str = "", new: str = "") -> Finding:
    return Finding(rule=rule, level=level, path=path, line=line, what=what, old=old, new=new)


class _Guard:
    def __init__(
        self, old: Module | None, new: Module | None, path: str, contract: Contract, tests: Sequence[str]
    ) -> None:
        self.old = old
        self.new = new
        self.path = path
        self.contract = contract
        self.wanted = {re.sub(r"\[.*", "", name).split(".py::")[-1] for name in tests}
        self.made: list[Finding] = []
        self.cut = False
        self.units: list[Unit] = []  # all of the new file that may have changed
        self.calls: list[ast.Call] = []  # those in them

    def say(self, rule: str, level: str, line: int, what: str, old: str = "", new: str = "") -> None:
        self.made.append(_finding(rule, level, self.path, line, what, old, new))

    def findings(self) -> list[Finding]:
        if self.new is None:
            for test in self.old.tests.values() if self.old else ():
                self.say("test-removed", "refuse", test.node.lineno, f"{test.name} was deleted with its file")
            return self.made
        self._surroundings()
        has_tests = bool((self.old and self.old.tests) or self.new.tests)
        same = reach.untouched(self.old, self.new, has_tests) if self.old else set()
        before = self._units(self.old, has_tests, same) if self.old else {}
        after = self._units(self.new, has_tests, same)
        self.units = list(after.values())
        pool = [check for name, unit in after.items() if name not in before for check in unit.checks]
        for name, unit in before.items():
            if self.wanted and has_tests and name not in self.wanted:
                continue
            if (now := _namesake(name, before, after)) is not None:
                self._compare(unit, now, pool)
            elif has_tests:
                self._gone(unit, after, pool)
            else:
                self._helper_gone(unit, pool)
        for name, unit in after.items():
            if name not in before:
                self._new(unit, has_tests)
        if self.cut and has_tests and self.old:
            self._helpers(self.old, self.new)
        return self.made

    def _helpers(self, old: Module, new: Module) -> None:
        """Where a test could not be followed into what it uses: each function that was edited, by itself."""
        for name in old.functions.keys() & new.functions.keys() - old.tests.keys():
            if dumped(old.functions[name]) != dumped(new.functions[name]):
                old.left = new.left = WORK // 10
                self._compare(self._function(old, old.functions[name]), self._function(new, new.functions[name]), [])

    # Reading.

    def _units(self, module: Module, has_tests: bool, same: set[str]) -> dict[str, Unit]:
        """All but those that are as they were; what was edited comes first, while there is time for it."""
        edited = reach.first_changed(self.old, self.new, has_tests)
        names = [name for name in (module.tests if has_tests else module.functions) if name not in same]
        made = {name: self._unit(module, name, has_tests) for name in sorted(names, key=lambda n: n not in edited)}
        return {name: made[name] for name in names}

    def _unit(self, module: Module, name: str, has_tests: bool) -> Unit:
        return self._test(module, module.tests[name]) if has_tests else self._function(module, module.functions[name])

    def _test(self, module: Module, test: Test) -> Unit:
        walk, cut = Walk(module), False
        try:
            walk.test(test)
        except TooLong:
            cut = True
        marks = [*test.node.decorator_list, *(test.owner.decorator_list if test.owner else [])]
        marks += _marks(module.constants.get("pytestmark"))
        for statement in test.owner.body if test.owner else []:
            if isinstance(statement, ast.Assign) and values.text(statement.targets[0]) == "pytestmark":
                marks += _marks(statement.value)
        self._decorated(walk, module, test.node, marks)
        return Unit(
            name=test.name, line=test.node.lineno, **_seen(walk),
            doc=f"{self.contract.of(test.name)}\n{test.doc}",
            text=test.dump(), cut=cut, together=together.Together(module, test.node),
        )  # fmt: skip

    def _decorated(self, walk: Walk, module: Module, node: Function, marks: list[ast.expr]) -> None:
        for mark in marks:
            target = mark.func if isinstance(mark, ast.Call) else mark
            made = walk.resolve(target)
            walk.line = mark.lineno
            name = values.text(made)
            if isinstance(made, ast.Call):
                mark, name = made, values.text(made.func)
            if found := escapes.of_decorator(mark, name):
                walk.escape(*found)
            elif name.rsplit(".", 1)[-1] in {"property", "cached_property", "contextmanager"}:
                walk.escape("not-collected", f"@{name}")
            elif name in module.functions and escapes.hides(module.functions[name]):
                walk.escape("ends-early", f"@{name}")
        if isinstance(node, ast.AsyncFunctionDef) and not any(
            "async" in values.text(m) or "anyio" in values.text(m) for m in marks
        ):
            walk.escape("not-collected", "async def")
        if any(isinstance(part, ast.Yield | ast.YieldFrom) for part in own_nodes(node)):
            walk.escape("not-collected", "yield")

    def _function(self, module: Module, node: Function) -> Unit:
        walk, returned, cut = Walk(module), None, False
        try:
            returned = walk.unit(node)
        except TooLong:
            cut = True
        return Unit(
            name=node.name, line=node.lineno, **_seen(walk),
            doc=ast.get_docstring(node) or "", returned=returned, text=dumped(node), cut=cut,
        )  # fmt: skip

    # Comparing.

    def _scene(self, old: Unit) -> Scene:
        parts = [values.text(action) for action in old.actions]
        parts += [values.text(part) for c in old.checks for part in ast.walk(c.node) if isinstance(part, ast.Call)]
        asked = {callee(check.node) for check in old.checks} - {""}
        return Scene(doc=old.doc, inputs="\n".join(parts), module=self.new, callees=frozenset(asked))

    def _compare(self, old: Unit, new: Unit, pool: list[Check]) -> None:
        scene = self._scene(old)
        try:
            found = None if old.cut or new.cut else Matcher(old.checks, new.checks, pool, scene).match()
        except TooLong:
            found = None
        if found is None:
            level = "refuse" if old.text != new.text else "note"
            self.say("too-long", level, new.line, f"{new.name} is too long to compare")
            self.cut = True
            return
        for loss in found.losses:
            level = "justified" if loss.justified else "refuse"
            line = loss.new.line if loss.new else loss.old.line
            code = loss.new.code if loss.new else ""
            self.say(loss.rule, level, line, f"{old.name}: {loss.what}", loss.old.code, code)
        for before, after, what in found.updates:
            self.say("expectation-changed", "note", after.line, f"{old.name}: {what}", before.code, after.code)
        is_hook = new.name.startswith("pytest_")  # see outcomes.py
        around = silent(added(old.escapes, new.escapes, scene.callees), new.checks)
        for extra in around if not is_hook else []:
            line = extra.line or new.line
            self.say(extra.rule, extra.level, line, f"{new.name}: {extra.what}", "", extra.shown)
        for line, what, shown in answers.own(old.side, new.side, old.doc):
            self.say("own-answer", "refuse", line or new.line, f"{new.name}: {what}", "", shown)
        planted = list(written.planted(old.written, new.written, old.checks, new.checks))
        for find in (prepared.with_answers, prepared.scripts):
            planted += find(old.side, new.side, old.written, new.written)
        for line, what in planted:
            self.say("own-answer", "refuse", line or new.line, f"{new.name}: {what}")
        for command in answers.unread(old.side, new.side):
            self.say(
                "long-line",
                "note",
                new.line,
                f"{new.name}: a command line is too long to read completely",
                "",
                command,
            )
        self._away(old, new)
        self._easier(old, new)
        self._returns(old, new, scene)

    def _away(self, old: Unit, new: Unit) -> None:
        if old.together and new.together and (why := together.lost(old.together, new.together)):
            self.say("concurrency-removed", "refuse", new.line, f"{new.name}: {why}")
        is_helper = self.new is not None and new.name in self.new.functions and new.name not in self.new.tests
        if is_helper and (new.name.startswith("pytest_") or old.returned is None):
            return
        if found := asking.lost(old.asked, new.asked, new.escapes):
            self.say("program-not-run", "refuse", found[0] or new.line, f"{new.name}: {found[1]}")

    def _returns(self, old: Unit, new: Unit, scene: Scene) -> None:
        if old.returned is not None and self.old is not None and self.new is not None:
            for rule, level, what in handed.less(old.returned, new.returned, self.old, self.new, scene):
                self.say(rule, level, new.line, f"{new.name} {what}")

    def _easier(self, old: Unit, new: Unit) -> None:
        if self.new is None:
            return
        if not self.calls:
            self.calls = [call for unit in self.units for call in unit.side.calls]
        if gone := hardness.lost(old.side.calls, new.side.calls, self.calls, self.new):
            self.say("input-weakened", "refuse", new.line, f"{new.name}: its input no longer contains {gone}")

    def _gone(self, old: Unit, after: dict[str, Unit], pool: list[Check]) -> None:
        assert self.new is not None
        scene = self._scene(old)
        found = Matcher(old.checks, [], pool, scene).match()
        others = [unit for name, unit in after.items() if self.old and name not in self.old.tests]
        if not old.checks:
            shown = {values.text(action) for action in old.actions}
            kept = any(shown <= {values.text(action) for action in unit.actions} for unit in others)
        else:
            kept = not found.losses
        if kept and others:
            around = [escape for unit in others for escape in unit.escapes]
            for extra in added(old.escapes, around, scene.callees):
                self.say(
                    extra.rule,
                    extra.level,
                    extra.line or old.line,
                    f"{old.name}: {extra.what}",
                    "",
                    extra.shown,
                )
            self.say("test-renamed", "note", others[0].line, f"other tests check what {old.name} checked")
            return
        short = old.name.rsplit("::", 1)[-1]
        why = "was removed"
        for node in ast.walk(self.new.tree):
            if isinstance(node, Function) and node.name.strip("_").endswith(short.removeprefix("test_")):
                why = f"is no longer collected: see {node.name} in line {node.lineno}"
        self.say("test-removed", "refuse", old.line, f"{old.name} {why}")

    def _helper_gone(self, old: Unit, pool: list[Check]) -> None:
        found = Matcher(old.checks, [], pool, self._scene(old)).match()
        for loss in found.losses:
            self.say(
                "assert-removed",
                "note",
                loss.old.line,
                f"the helper {old.name} was removed with its check",
                loss.old.code,
            )

    def _new(self, unit: Unit, has_tests: bool) -> None:
        for check in unit.checks if has_tests else []:
            if check.empty:
                self.say("always-holds", "note", check.line, f"{unit.name}: {check.empty}", "", check.code)
        for escape in unit.escapes:
            if escape.rule in {"skip", "xfail", "mock", "program-replaced", "retry"}:
                self.say(
                    escape.rule,
                    "note",
                    escape.line or unit.line,
                    f"the new test {unit.name} contains this",
                    "",
                    escape.what,
                )

    # The file as a whole.

    def _surroundings(self) -> None:
        assert self.new is not None
        for rule, level, line, what, shown in hooks.changed(self.old, self.new):
            self.say(rule, level, line, what, "", shown)
        before = module_walk(self.old).escapes if self.old else []
        for extra in added(before, module_walk(self.new).escapes, frozenset()):
            self.say(extra.rule, extra.level, extra.line, f"on import: {extra.what}", "", extra.shown)
        for name in {*self.new.functions, *self.new.constants, *self.new.classes}:
            known = self.old and name in {*self.old.functions, *self.old.constants, *self.old.classes}
            if hasattr(builtins, name) and not known and not name.startswith("__"):
                self.say("builtin-replaced", "refuse", 0, f"{name} no longer does what its name says")


def _namesake(name: str, before: dict[str, Unit], after: dict[str, Unit]) -> Unit | None:
    """The test of this name, also where it has come into a class or out of one."""
    if name in after:
        return after[name]
    short = name.rsplit("::", 1)[-1]
    found = [unit for other, unit in after.items() if other not in before and other.rsplit("::", 1)[-1] == short]
    return found[0] if len(found) == 1 else None


def _seen(walk: Walk) -> dict[str, Any]:
    """What a walk came by, for a unit."""
    return {
        "checks": walk.checks,
        "escapes": walk.escapes,
        "actions": walk.actions,
        "written": walk.written,
        "asked": asking.Asked(walk),
        "side": answers.Side(walk.actions, walk.checks, walk.escapes),
    }


def _marks(found: ast.expr | None) -> list[ast.expr]:
    if found is None:
        return []
    return list(found.elts) if isinstance(found, ast.List | ast.Tuple) else [found]
