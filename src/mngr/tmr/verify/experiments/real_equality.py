"""The experiment `real_equality`: do checks hold by the methods of Python's own types, too?

An edit can make a check pass by changing how a class compares. If a claim adds or changes such methods, mngr runs the
test again and looks at each comparison with an object of that class.
"""

from __future__ import annotations

import ast
import secrets

from mngr.base.untrusted_json import as_list
from mngr.tmr.finding import Finding
from mngr.tmr.runners.pytest.trials import Trial, TrialRun
from mngr.tmr.runners.test_run import TestFunction
from mngr.tmr.verify.experiments.changed_test_lines import parse_function
from mngr.tmr.verify.experiments.code_in_test_file import read_report, write_loader
from mngr.tmr.verify.experiments.experiment import (
    NO_TIME,
    Experiment,
    ExperimentInputs,
    ExperimentPlan,
    ExperimentResult,
    not_examined,
)
from mngr.tmr.verify.rules.changed_file import ChangedFile
from mngr.tmr.verify.rules.python_source import parse_source

NAME = "real_equality"
_METHODS = (
    "__eq__",
    "__ne__",
    "__bool__",
    "__len__",
    "__contains__",
    "__lt__",
    "__le__",
    "__gt__",
    "__ge__",
    "__iter__",
)
_OPERATORS: dict[type[ast.cmpop], str] = {ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"}
# Methods of unittest, and the method of the comparer for their first two arguments.
_UNITTEST = {
    "assertEqual": "equal",
    "assertEquals": "equal",
    "assertListEqual": "equal",
    "assertDictEqual": "equal",
    "assertNotEqual": "order",
    "assertLess": "order",
    "assertLessEqual": "order",
    "assertGreater": "order",
    "assertGreaterEqual": "order",
    "assertIn": "contains",
    "assertTrue": "truth",
    "assertFalse": "truth",
}


def compare_by_built_in_types(inputs: ExperimentInputs) -> ExperimentPlan:
    """Run the test with comparisons that look at the objects of changed classes."""
    places = {name: place for change in inputs.changes for name, place in map_changed_classes(change).items()}
    if not places:
        return not_examined(NAME, "the claim changes no class that compares")
    token = secrets.token_hex(8)
    text = inputs.read_files([inputs.test.path]).get(inputs.test.path, "")
    changed = _write_comparing_test(text, inputs.test, sorted(places), token)
    if changed is None:
        return _make_unclear(Experiment(name=NAME, outcome="unclear"), "mngr cannot rewrite this test", places)
    files: dict[str, str | None] = {inputs.test.path: changed}
    [answer] = yield [Trial(tests=[inputs.test.id], files=files, timeout=inputs.trial_timeout, always=True)]
    if answer is None or answer.problem:
        return not_examined(NAME, NO_TIME)
    row = Experiment(name=NAME, outcome="passed", trials=1, seconds=round(answer.run.seconds, 3))
    seen = _list_seen(answer, token)
    if seen is None:
        return _make_unclear(row, "the test does not pass while mngr compares", places)
    findings = [_make_finding(level, what, places) for level, what in seen]
    if findings:
        row = row.replace(outcome="failed", reason=findings[0].what)
    return ExperimentResult(row=row, findings=findings)


def map_changed_classes(change: ChangedFile) -> dict[str, tuple[str, int]]:
    """Return the place of the first comparing method that a change adds or alters, by the name of its class."""
    tree, old = (parse_source(text) if change.path.endswith(".py") else None for text in (change.new, change.old))
    if tree is None:
        return {}
    known = (
        {ast.dump(node) for node in ast.walk(old) if isinstance(node, ast.FunctionDef)} if old is not None else set()
    )
    places: dict[str, tuple[str, int]] = {}
    for owner in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        for node in owner.body:
            names = [node.name] if isinstance(node, ast.FunctionDef) else []
            if isinstance(node, ast.Assign):
                names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            if any(name in _METHODS for name in names) and ast.dump(node) not in known:
                places.setdefault(owner.name, (change.path, node.lineno))
    return places


def _write_comparing_test(text: str, test: TestFunction, class_names: list[str], token: str) -> str | None:
    """Return the test's file with comparisons that are looked at, or None for a test that mngr cannot rewrite."""
    tree = parse_source(text)
    if tree is None or parse_function(text, test) is None:
        return None
    changed = ast.unparse(ast.fix_missing_locations(_Comparisons().visit(tree)))
    name = ".".join(test.id.split("::")[1:])
    end = (
        f"_comparer = _mngr['Comparer']({class_names!r})\n{name} = _mngr['report_test']({name}, _comparer, {token!r})\n"
    )
    return f"{changed}\n\n{write_loader('exact_equality.py')}{end}"


class _Comparisons(ast.NodeTransformer):
    """Adds calls of the comparer to all assertions of a file, also to those in helpers and methods of unittest."""

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        method = _UNITTEST.get(node.func.attr) if isinstance(node.func, ast.Attribute) else None
        if method == "truth" and len(node.args) in (1, 2):
            node.args[0] = _call(method, node.args[0])
        elif method is not None and len(node.args) in (2, 3):
            pair = ast.Call(func=_get_method(f"look_{method}"), args=[*node.args[:2], _line(node)], keywords=[])
            node.args[:2] = [ast.Starred(value=pair, ctx=ast.Load())]
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.Assert:
        node.test = self._replace(node.test)
        return node

    def _replace(self, test: ast.expr) -> ast.expr:
        match test:
            case ast.BoolOp():
                test.values = [self._replace(value) for value in test.values]
                return test
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                test.operand = self._replace(operand)
                return test
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
                return _call("equal", left, right)
            case ast.Compare(left=left, ops=[ast.In()], comparators=[right]):
                return _call("contains", left, right)
            case ast.Compare(left=left, ops=[(ast.NotEq() | ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE()) as operator]):
                return _call("order", left, test.comparators[0], ast.Constant(_OPERATORS[type(operator)]))
            case ast.Compare():
                return test
        return _call("truth", test)


def _call(method: str, *args: ast.expr) -> ast.Call:
    return ast.Call(func=_get_method(method), args=[*args, _line(args[0])], keywords=[])


def _get_method(name: str) -> ast.Attribute:
    return ast.Attribute(value=ast.Name(id="_comparer", ctx=ast.Load()), attr=name, ctx=ast.Load())


def _line(node: ast.expr) -> ast.Constant:
    return ast.Constant(node.lineno)


def _list_seen(answer: TrialRun, token: str) -> list[tuple[str, str]] | None:
    """Return the level and the sentence of each comparison that the test reported, or None without a report."""
    reports = [report for failure in answer.run.failures if (report := read_report(failure.message, token)) is not None]
    if not reports:
        return None
    rows = [as_list(row) for report in reports for row in as_list(report)]
    pairs = [(str(row[0]), str(row[2])[:300]) for row in rows if len(row) == 3]
    return list(dict.fromkeys(pairs))


def _make_unclear(row: Experiment, reason: str, places: dict[str, tuple[str, int]]) -> ExperimentResult:
    """Return the result of a test whose comparisons mngr could not see."""
    what = f"the claim changes how an object of {next(iter(places))} compares, and {reason}"
    finding = _make_finding("note", what, places)
    return ExperimentResult(row=row.replace(outcome="unclear", reason=reason), findings=[finding])


def _make_finding(level: str, what: str, places: dict[str, tuple[str, int]]) -> Finding:
    path, line = next(
        (place for name, place in places.items() if f" of {name} " in f"{what} "), next(iter(places.values()))
    )
    level = "refuse" if level == "refuse" else "note"
    return Finding(rule="own-equality", level=level, path=path, line=line, what=what)
