"""Adds the checks that a passing test lacks: exit codes, and what its last command printed or changed."""

from __future__ import annotations

import ast
import re

from mngr.e2e.expectations import line_matching
from mngr.kinds.mechanic.program import source_edits, tutorial_citations
from mngr.kinds.mechanic.program.fixes import EXIT_CHECKS, TRACEBACK_HEADER, format_evidence
from mngr.kinds.mechanic.program.line_patterns import build_pattern, is_specific
from mngr.kinds.mechanic.program.observed_runs import ObservedCase, ObservedCheck, ObservedCommand
from mngr.kinds.mechanic.program.repair_edits import Escalation, WorkspaceFiles

_MOST_FILES, _MOST_LINES = 3, 40  # larger changes and outputs get no check
_RESULT_PLACEHOLDER = "\0"  # stands for the result variable in the text of a check


def fill_empty_test(files: WorkspaceFiles) -> str | None:
    """Make a test that only cites a block run that block; return a description of the change, or None."""
    module = files.parse_test_file()
    function = module.find_test(files.test)
    citations = source_edits.list_citations(function) if function else []
    names = [arg.arg for arg in function.args.args] if function else []
    if function is None or len(citations) != 1 or "e2e" not in names or not all(map(_is_noop, function.body)):
        return None
    statement = next(
        candidate for candidate in function.body if any(child is citations[0].node for child in ast.walk(candidate))
    )
    indent, end = module.find_indent(statement), module.get_span(statement)[1]
    text = source_edits.format_literal(
        tutorial_citations.dedent_block(citations[0].text), f'"""\n{indent}x\n{indent}"""', indent
    )
    files.write(files.path, module.apply_splices([(end, end, f"\n{indent}result = e2e.run({text})")]))
    return "run the block that the test cites"


def _is_noop(node: ast.stmt) -> bool:
    """True when a statement does nothing: a docstring, a citation, or an assertion that is always true."""
    if isinstance(node, ast.Expr):
        return (
            isinstance(node.value, ast.Constant)
            or source_edits.get_called_name(node.value) == source_edits.CITE_FUNCTION
        )
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Assert) and _is_always_true(node.test))


def add_missing_checks(files: WorkspaceFiles, test_runs: list[list[ObservedCase]]) -> list[str | Escalation]:
    """Add the checks that held in every run; return the descriptions and the escalations."""
    module = files.parse_test_file()
    function = module.find_test(files.test)
    cases = [case for test_run in test_runs for case in test_run]
    if function is None or not cases or any(case.outcome != "pass" for case in cases):
        return []
    observations = _TestObservations(files, module, function, cases)
    calls = [call for call in source_edits.list_calls(function, "run") if observations.list_runs(call)]
    outcomes: list[str | Escalation] = []
    unchecked_calls = [call for call in calls if not observations.has_exit_code_check(call)]
    last = max(calls, key=lambda call: max(number for number, _ in observations.list_runs(call))) if calls else None
    expectations = (
        observations.build_expectations(last) if last is not None and not observations.has_effect_check(last) else []
    )
    for call in calls:
        outcome = observations.add_checks(
            call, with_code=call in unchecked_calls, expectations=expectations if call is last else []
        )
        outcomes += [outcome] if outcome else []
    if observations.splices:
        files.write(files.path, module.apply_splices([*observations.splices, *_build_import(module)]))
    return outcomes


class _TestObservations:
    """The observed runs and checks of one test, found by the calls in its source."""

    def __init__(
        self,
        files: WorkspaceFiles,
        module: source_edits.PythonSource,
        function: ast.FunctionDef,
        cases: list[ObservedCase],
    ) -> None:
        self.files = files
        self.module = module
        self.function = function
        self.cases = cases
        self.splices: list[source_edits.Splice] = []

    def list_runs(self, call: ast.Call) -> list[tuple[int, ObservedCommand]]:
        """Return every run of a call, with its number among the commands of its test."""
        return [
            (number, run) for case in self.cases for number, run in enumerate(case.runs) if self._is_run_of(run, call)
        ]

    def list_checks(self, call: ast.Call) -> list[ObservedCheck]:
        """Return every check of a call's results."""
        return [
            check
            for case in self.cases
            for check in case.checks
            if check.run is not None and self._is_run_of(case.runs[check.run], call)
        ]

    def _is_run_of(self, run: ObservedCommand, call: ast.Call) -> bool:
        return self.files.is_test_file(run.path) and call.lineno <= run.line <= (call.end_lineno or run.line)

    def has_exit_code_check(self, call: ast.Call) -> bool:
        if any(check.method in EXIT_CHECKS for check in self.list_checks(call)):
            return True
        return any(isinstance(node, ast.Attribute) and node.attr == "exit_code" for node in ast.walk(self.function))

    def has_effect_check(self, call: ast.Call) -> bool:
        """True when the test checks more than the success of a call; its own assertions count too."""
        if any(not is_empty_check(check) for check in self.list_checks(call)):
            return True
        for case in self.cases:
            if any(check.run is None and check.line > call.lineno for check in case.checks):
                return True
        return any(
            node.lineno >= call.lineno and _is_real_check(node) for node in source_edits.iter_statements(self.function)
        )

    def build_expectations(self, call: ast.Call) -> list[str]:
        """Return checks for output and changes that were the same in every run.

        The checks contain _RESULT_PLACEHOLDER in place of the result's name.
        """
        runs = [run for _, run in self.list_runs(call)]
        if len(runs) != len(self.cases) or any(run.code for run in runs):
            return []
        indent = self.module.find_indent(self._find_statement(call) or self.function)
        checks = []
        rows = build_pattern([run.out for run in runs], [run.names for run in runs])
        if is_specific(rows) and len(rows) <= _MOST_LINES:
            checks.append(f"expect({_RESULT_PLACEHOLDER}.stdout).to_match_lines({_format_lines(rows, indent)})")
        return checks + self._build_effect_checks(call, runs, indent)

    def _build_effect_checks(self, call: ast.Call, runs: list[ObservedCommand], indent: str) -> list[str]:
        """Return checks for the files that a command creates, changes or deletes.

        Return nothing if the files differ between runs or are too many. Long files and binary files get no check.
        """
        first = runs[0]
        is_stable = all(sorted(run.changed) == sorted(first.changed) and run.removed == first.removed for run in runs)
        if not is_stable or len(first.changed) + len(first.removed) > _MOST_FILES:
            return []
        cwd = self.module.get_source(call.func.value) + ".cwd" if isinstance(call.func, ast.Attribute) else ""
        checks = []
        for name in sorted(first.changed):
            texts = [run.changed[name] for run in runs]
            rows = build_pattern([text or "" for text in texts], [{}] * len(runs))
            if None not in texts and is_specific(rows) and len(rows) <= _MOST_LINES:
                checks.append(
                    f"expect({cwd} / {source_edits.quote_string(name)}).to_match_lines({_format_lines(rows, indent)})"
                )
        if first.removed:
            removed = ", ".join(f"{source_edits.quote_string(name)}: None" for name in first.removed)
            checks.append(f"expect({cwd}).to_match_tree({{{removed}}})")
        return checks

    def add_checks(self, call: ast.Call, *, with_code: bool, expectations: list[str]) -> str | Escalation | None:
        """Add edits that write the checks after a command; return a description or an escalation."""
        runs = [run for _, run in self.list_runs(call)]
        codes = sorted({run.code for run in runs})
        statement = self._find_statement(call)
        locations = [(self.files.path, call.lineno)]
        crash = next((run for run in runs if TRACEBACK_HEADER in run.err), None)
        if crash is not None and not any(check.stream in ("stderr", "output") for check in self.list_checks(call)):
            title = f"`{crash.command}` prints a traceback, and the test does not notice"
            return Escalation("UNCAUGHT_BUG", title, format_evidence(crash), locations)
        if not with_code and not expectations:
            return None
        if with_code and (len(codes) != 1 or (codes != [0] and not self._is_failure_expected(call))):
            title = f"`{runs[0].command}` exits with {' or '.join(map(str, codes))}, and the test does not check that"
            return Escalation(
                "AMBIGUOUS",
                title,
                format_evidence(runs[0], "The test does not say which exit code is right."),
                locations,
            )
        if statement is None:
            return None
        exit_check = "to_succeed()" if codes == [0] else f"to_have_exit_code({codes[0]})"
        self._insert_checks(
            call, statement, [*([f"expect({_RESULT_PLACEHOLDER}).{exit_check}"] if with_code else []), *expectations]
        )
        subjects = ["the exit code"] * with_code + _name_subjects(expectations)
        command = runs[0].command.strip().rpartition("\n")[2][:60]
        return f"check {_join_words(subjects)} of `{command}`, as seen in {len(runs)} runs"

    def _is_failure_expected(self, call: ast.Call) -> bool:
        """True when the test checks the output of the failed command."""
        return any(not is_empty_check(check) for check in self.list_checks(call))

    def _find_statement(self, call: ast.Call) -> ast.stmt | None:
        """Return the simple statement that contains a call and starts its own line, or None."""
        for node in source_edits.iter_statements(self.function):
            is_simple = isinstance(node, (ast.Expr, ast.Assign, ast.AnnAssign, ast.Assert, ast.Return))
            if is_simple and any(child is call for child in ast.walk(node)):
                return node if not self.module.find_indent(node).strip() else None
        return None

    def _insert_checks(self, call: ast.Call, statement: ast.stmt, checks: list[str]) -> None:
        indent, source = self.module.find_indent(statement), self.module.get_source(call)
        start, end = self.module.get_span(statement)
        value = getattr(statement, "value", None)
        targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
        if value is call and len(targets) == 1 and isinstance(targets[0], ast.Name):
            self.splices.append((end, end, self._format_checks(checks, targets[0].id, indent)))
        elif (
            isinstance(statement, ast.Expr) and value is call and len(checks) == 1 and _RESULT_PLACEHOLDER in checks[0]
        ):
            self.splices.append((start, end, checks[0].replace(_RESULT_PLACEHOLDER, source)))
        elif isinstance(statement, ast.Expr) and value is call:
            name = self._choose_name()
            self.splices.append((start, end, f"{name} = {source}{self._format_checks(checks, name, indent)}"))
        else:
            name = self._choose_name()
            self.splices.append(
                (start, start, f"{name} = {source}{self._format_checks(checks, name, indent)}\n{indent}")
            )
            self.splices.append((*self.module.get_span(call), name))

    @staticmethod
    def _format_checks(checks: list[str], name: str, indent: str) -> str:
        return "".join(f"\n{indent}{check.replace(_RESULT_PLACEHOLDER, name)}" for check in checks)

    def _choose_name(self) -> str:
        """Return a variable name that the test does not use."""
        used_names = {node.id for node in ast.walk(self.function) if isinstance(node, ast.Name)}
        used_names |= {text.split(" = ")[0] for _, _, text in self.splices}
        number, name = 1, "result"
        while name in used_names:
            number += 1
            name = f"result_{number}"
        return name


def _name_subjects(expectations: list[str]) -> list[str]:
    """Return what the expectations are about."""
    names = ["the output"] * any(".stdout" in expectation for expectation in expectations)
    return [*names, *["the changed files"] * any(".cwd" in expectation for expectation in expectations)]


def _join_words(words: list[str]) -> str:
    """Return the words as a list in a sentence: `a`, `a and b`, or `a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _format_lines(rows: list[str], indent: str) -> str:
    """Return the expected lines as a literal."""
    if len(rows) == 1:
        return source_edits.quote_string(rows[0])
    return source_edits.format_literal("\n".join(rows), f'"""\n{indent}x\n{indent}"""', indent)


def is_empty_check(check: ObservedCheck) -> bool:
    """True when a check requires only success, or matches every text."""
    if check.method in EXIT_CHECKS:
        return check.method == "to_succeed" or check.args == [0]
    if check.method == "to_contain":
        return not any(check.args)
    if check.method == "to_match":
        return re.search(str(check.args[0]), "") is not None if check.args else False
    if check.method == "to_match_lines":
        return bool(check.args) and not is_specific(line_matching.split_expected(str(check.args[0])))
    return False


def _is_real_check(node: ast.stmt) -> bool:
    """True when a statement is one of the test's own checks and can fail."""
    if isinstance(node, ast.Assert):
        return not _is_always_true(node.test)
    names = [child.attr for child in ast.walk(node) if isinstance(child, ast.Attribute)]
    if isinstance(node, (ast.With, ast.AsyncWith)) and "raises" in names:
        return True
    called_names = [
        child.func.id for child in ast.walk(node) if isinstance(child, ast.Call) and isinstance(child.func, ast.Name)
    ]
    return any(name.startswith(("assert", "check", "verify")) for name in called_names)


def _is_always_true(test: ast.expr) -> bool:
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if isinstance(test, ast.Name):
        return True  # a result object is always true
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        return any(_is_always_true(value) for value in test.values)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        other = test.comparators[0]
        if isinstance(test.ops[0], ast.IsNot) and isinstance(other, ast.Constant) and other.value is None:
            return True
        return isinstance(test.ops[0], ast.Eq) and ast.dump(test.left) == ast.dump(other)
    return False


def _build_import(module: source_edits.PythonSource) -> list[source_edits.Splice]:
    """Return an edit that imports `expect`, or nothing when the file imports it already."""
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
            position = (
                module.get_span(node.names[-1])[1] if hasattr(node.names[-1], "lineno") else module.get_span(node)[1]
            )
            return [(position, position, ", expect")]
    imports = [node for node in module.tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    if imports:
        position = module.get_span(imports[-1])[1]
        return [(position, position, "\nfrom mngr.e2e import expect")]
    return [(0, 0, "from mngr.e2e import expect\n")]
