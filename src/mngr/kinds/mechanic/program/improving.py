"""Adds the checks that a passing test lacks: exit codes, and what its last command printed or changed."""

from __future__ import annotations

import ast
import re

from mngr.e2e import lines
from mngr.kinds.mechanic.program import citing, edits
from mngr.kinds.mechanic.program.desk import Desk, Trouble
from mngr.kinds.mechanic.program.mending import CRASH, EXIT, evidence
from mngr.kinds.mechanic.program.pattern import is_saying_something, pattern
from mngr.kinds.mechanic.program.trial import Case, Check, Run

_MOST_FILES, _MOST_LINES = 3, 40  # of what a command changed that are worth a check
_IT = "\0"  # in a check: the result that it is about


def fill(desk: Desk) -> str | None:
    """Have a test that cites a block and does nothing run the block; what was done."""
    module = desk.module()
    function = module.function(desk.test)
    cited = edits.citations(function) if function else []
    names = [arg.arg for arg in function.args.args] if function else []
    if (
        function is None
        or len(cited) != 1
        or "e2e" not in names
        or not all(map(_does_nothing, function.body))
    ):
        return None
    place = next(one for one in function.body if any(child is cited[0].node for child in ast.walk(one)))
    indent, end = module.indent(place), module.span(place)[1]
    text = edits.literal(citing.flush(cited[0].text), f'"""\n{indent}x\n{indent}"""', indent)
    desk.write(desk.path, module.splice([(end, end, f"\n{indent}result = e2e.run({text})")]))
    return "it ran nothing; it runs the block it cites"


def _does_nothing(node: ast.stmt) -> bool:
    """Whether a statement of a test is only words: a docstring, a citation, an assertion that always holds."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) or edits.called(node.value) == edits.CITE
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Assert) and _is_always_so(node.test))


def improve(desk: Desk, trials: list[list[Case]]) -> list[str | Trouble]:
    """Add what is missing, as it was seen every time; what was done, and what needs thought."""
    module = desk.module()
    function = module.function(desk.test)
    cases = [case for trial in trials for case in trial]
    if function is None or not cases or any(case.outcome != "pass" for case in cases):
        return []
    found = _Found(desk, module, function, cases)
    calls = [call for call in edits.calls(function, "run") if found.runs(call)]
    done: list[str | Trouble] = []
    codes = [call for call in calls if not found.has_code_checked(call)]
    last = max(calls, key=lambda call: max(at for at, _ in found.runs(call))) if calls else None
    pins = found.pins(last) if last is not None and not found.has_effect_checked(last) else []
    for call in calls:
        said = found.add(call, with_code=call in codes, pins=pins if call is last else [])
        done += [said] if said else []
    if found.splices:
        desk.write(desk.path, module.splice([*found.splices, *_import(module)]))
    return done


class _Found:
    """What was seen of one test, by the calls in its source."""

    def __init__(
        self, desk: Desk, module: edits.Module, function: ast.FunctionDef, cases: list[Case]
    ) -> None:
        self.desk = desk
        self.module = module
        self.function = function
        self.cases = cases
        self.splices: list[edits.Splice] = []

    def runs(self, call: ast.Call) -> list[tuple[int, Run]]:
        """What became of a call, each time, with its number among the commands of its test."""
        return [
            (number, run)
            for case in self.cases
            for number, run in enumerate(case.runs)
            if self._is_of(run, call)
        ]

    def checks(self, call: ast.Call) -> list[Check]:
        """What is said of a call."""
        return [
            check
            for case in self.cases
            for check in case.checks
            if check.run is not None and self._is_of(case.runs[check.run], call)
        ]

    def _is_of(self, run: Run, call: ast.Call) -> bool:
        return self.desk.is_test_file(run.path) and call.lineno <= run.line <= (call.end_lineno or run.line)

    def has_code_checked(self, call: ast.Call) -> bool:
        if any(check.method in EXIT for check in self.checks(call)):
            return True
        return any(
            isinstance(node, ast.Attribute) and node.attr == "exit_code" for node in ast.walk(self.function)
        )

    def has_effect_checked(self, call: ast.Call) -> bool:
        """Whether anything but success is said of what it did; what a test says in its own way counts."""
        if any(not is_empty_check(check) for check in self.checks(call)):
            return True
        for case in self.cases:
            if any(check.run is None and check.line > call.lineno for check in case.checks):
                return True
        return any(
            node.lineno >= call.lineno and _says_something(node) for node in edits.statements(self.function)
        )

    def pins(self, call: ast.Call) -> list[str]:
        """Expectations of what was printed and changed every time, about `_IT`."""
        runs = [run for _, run in self.runs(call)]
        if len(runs) != len(self.cases) or any(run.code for run in runs):
            return []
        indent = self.module.indent(self._statement(call) or self.function)
        found = []
        rows = pattern([run.out for run in runs], [run.names for run in runs])
        if is_saying_something(rows) and len(rows) <= _MOST_LINES:
            found.append(f"expect({_IT}.stdout).to_match_lines({_text(rows, indent)})")
        return found + self._effects(call, runs, indent)

    def _effects(self, call: ast.Call, runs: list[Run], indent: str) -> list[str]:
        """What is there afterwards and was not before; nothing when that is much, or no text, or not the same files."""
        first = runs[0]
        same = all(sorted(run.changed) == sorted(first.changed) and run.gone == first.gone for run in runs)
        if not same or len(first.changed) + len(first.gone) > _MOST_FILES:
            return []
        place = self.module.source(call.func.value) + ".cwd" if isinstance(call.func, ast.Attribute) else ""
        found = []
        for name in sorted(first.changed):
            texts = [run.changed[name] for run in runs]
            rows = pattern([text or "" for text in texts], [{}] * len(runs))
            if None not in texts and is_saying_something(rows) and len(rows) <= _MOST_LINES:
                found.append(f"expect({place} / {edits.quoted(name)}).to_match_lines({_text(rows, indent)})")
        if first.gone:
            gone = ", ".join(f"{edits.quoted(name)}: None" for name in first.gone)
            found.append(f"expect({place}).to_match_tree({{{gone}}})")
        return found

    def add(self, call: ast.Call, *, with_code: bool, pins: list[str]) -> str | Trouble | None:
        """Write the checks behind a command; what was done."""
        runs = [run for _, run in self.runs(call)]
        codes = sorted({run.code for run in runs})
        statement = self._statement(call)
        where = [(self.desk.path, call.lineno)]
        crash = next((run for run in runs if CRASH in run.err), None)
        if crash is not None and not any(check.stream in ("stderr", "output") for check in self.checks(call)):
            title = f"`{crash.command}` prints a traceback, and the test does not mind"
            return Trouble("UNCAUGHT_BUG", title, evidence(crash), where)
        if not with_code and not pins:
            return None
        if with_code and (len(codes) != 1 or (codes != [0] and not self._means_to_fail(call))):
            title = (
                f"`{runs[0].command}` ends with {' or '.join(map(str, codes))}, and the test does not mind"
            )
            return Trouble("AMBIGUOUS", title, evidence(runs[0], "Whether that is meant is not said."), where)
        if statement is None:
            return None
        ends = "to_succeed()" if codes == [0] else f"to_have_exit_code({codes[0]})"
        self._put(call, statement, [*([f"expect({_IT}).{ends}"] if with_code else []), *pins])
        what = ["its exit code"] * with_code + [_names(pins)] * bool(pins)
        return f"`{runs[0].command.strip().rpartition(chr(10))[2][:60]}`: {' and '.join(what)} checked, as seen in {len(runs)} runs"

    def _means_to_fail(self, call: ast.Call) -> bool:
        """Whether the test speaks of what a command said that failed."""
        return any(not is_empty_check(check) for check in self.checks(call))

    def _statement(self, call: ast.Call) -> ast.stmt | None:
        """The plain statement on a line of its own that a call is in."""
        for node in edits.statements(self.function):
            plain = isinstance(node, (ast.Expr, ast.Assign, ast.AnnAssign, ast.Assert, ast.Return))
            if plain and any(child is call for child in ast.walk(node)):
                return node if not self.module.indent(node).strip() else None
        return None

    def _put(self, call: ast.Call, statement: ast.stmt, checks: list[str]) -> None:
        indent, source = self.module.indent(statement), self.module.source(call)
        start, end = self.module.span(statement)
        value = getattr(statement, "value", None)
        targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
        if value is call and len(targets) == 1 and isinstance(targets[0], ast.Name):
            self.splices.append((end, end, self._rows(checks, targets[0].id, indent)))
        elif isinstance(statement, ast.Expr) and value is call and len(checks) == 1 and _IT in checks[0]:
            self.splices.append((start, end, checks[0].replace(_IT, source)))
        elif isinstance(statement, ast.Expr) and value is call:
            name = self._name()
            self.splices.append((start, end, f"{name} = {source}{self._rows(checks, name, indent)}"))
        else:
            name = self._name()
            self.splices.append(
                (start, start, f"{name} = {source}{self._rows(checks, name, indent)}\n{indent}")
            )
            self.splices.append((*self.module.span(call), name))

    @staticmethod
    def _rows(checks: list[str], name: str, indent: str) -> str:
        return "".join(f"\n{indent}{check.replace(_IT, name)}" for check in checks)

    def _name(self) -> str:
        """A name that the test does not use."""
        used = {node.id for node in ast.walk(self.function) if isinstance(node, ast.Name)}
        used |= {text.split(" = ")[0] for _, _, text in self.splices}
        number, name = 1, "result"
        while name in used:
            number += 1
            name = f"result_{number}"
        return name


def _names(pins: list[str]) -> str:
    said = ["what it prints"] * any(".stdout" in pin for pin in pins)
    return " and ".join([*said, *["what it changes"] * any(".cwd" in pin for pin in pins)])


def _text(rows: list[str], indent: str) -> str:
    """Expected lines as a literal."""
    if len(rows) == 1:
        return edits.quoted(rows[0])
    return edits.literal("\n".join(rows), f'"""\n{indent}x\n{indent}"""', indent)


def is_empty_check(check: Check) -> bool:
    """Whether it says no more than success: that, or what fits every text."""
    if check.method in EXIT:
        return check.method == "to_succeed" or check.args == [0]
    if check.method == "to_contain":
        return not any(check.args)
    if check.method == "to_match":
        return re.search(str(check.args[0]), "") is not None if check.args else False
    if check.method == "to_match_lines":
        return bool(check.args) and not is_saying_something(lines.split(str(check.args[0])))
    return False


def _says_something(node: ast.stmt) -> bool:
    """Whether a statement is a check of the test's own that can fail."""
    if isinstance(node, ast.Assert):
        return not _is_always_so(node.test)
    names = [child.attr for child in ast.walk(node) if isinstance(child, ast.Attribute)]
    if isinstance(node, (ast.With, ast.AsyncWith)) and "raises" in names:
        return True
    own = [
        child.func.id
        for child in ast.walk(node)
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Name)
    ]
    return any(name.startswith(("assert", "check", "verify")) for name in own)


def _is_always_so(test: ast.expr) -> bool:
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if isinstance(test, ast.Name):
        return True  # a result is always something
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        return any(_is_always_so(value) for value in test.values)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        other = test.comparators[0]
        if isinstance(test.ops[0], ast.IsNot) and isinstance(other, ast.Constant) and other.value is None:
            return True
        return isinstance(test.ops[0], ast.Eq) and ast.dump(test.left) == ast.dump(other)
    return False


def _import(module: edits.Module) -> list[edits.Splice]:
    """`expect`, where the file does not have it."""
    names = {
        alias.asname or alias.name
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    if "expect" in names:
        return []
    for node in module.tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "mngr.e2e":
            at = module.span(node.names[-1])[1] if hasattr(node.names[-1], "lineno") else module.span(node)[1]
            return [(at, at, ", expect")]
    heads = [node for node in module.tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    if heads:
        at = module.span(heads[-1])[1]
        return [(at, at, "\nfrom mngr.e2e import expect")]
    return [(0, 0, "from mngr.e2e import expect\n")]
