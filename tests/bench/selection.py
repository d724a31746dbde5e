"""Compares the tests that mngr selects for one-line edits with the tests that really run the edited lines.

The truth does not come from mngr. A copy of the project writes the name of the current test whenever it runs one of the
chosen lines, and another copy raises an exception at an edited line. Bare pytest runs both copies.
"""

from __future__ import annotations

import ast
import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mngr.tmr.prepare.lines_by_test import AffectedTests, FileChange
from mngr.tmr.runners.test_run import SuiteLines

_EDITS = int(os.environ.get("MNGR_BENCH_EDITS") or 67)  # of lines in functions, for each project
_RAISES = int(os.environ.get("MNGR_BENCH_RAISES") or 3)  # edits that raise an exception: one run of the suite each
_TIMEOUT = 600.0
# A module and pytest plugin: notes which test runs a line, and which tests pass.
_RECORDER = """\
import os

_write, _open, _close, _environ = os.write, os.open, os.close, os.environ
_seen, _last = set(), [""]


def hit(number):
    test = _environ.get("PYTEST_CURRENT_TEST") or _last[0]
    _last[0] = test
    if (number, test) not in _seen:
        _seen.add((number, test))
        _note("hit %d %s" % (number, test))


def _note(text):
    file = _open(_PLACE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    _write(file, text.encode() + b"\\n")
    _close(file)


def pytest_runtest_logreport(report):
    if report.outcome == "failed":
        _note("failed " + report.nodeid)
    elif report.when == "call" and report.outcome == "passed":
        _note("passed " + report.nodeid)
"""
_PLUGIN = "mngr_bench_recorder"


@dataclass(frozen=True)
class Project:
    """An unpacked project with its own repository, and the command that runs its tests."""

    name: str
    repo: Path
    commit: str
    pytest: list[str]
    env: dict[str, str]


@dataclass(frozen=True)
class Edit:
    """A one-line edit: an exception at the beginning of a statement."""

    path: str
    line: int
    column: int
    is_in_function: bool

    def apply(self, text: str, inserted: str = "raise RuntimeError('edited')") -> str:
        """Return the file with a statement before the statement of this line."""
        rows = text.split("\n")
        row = rows[self.line - 1]
        rows[self.line - 1] = f"{row[: self.column]}{inserted}; {row[self.column :]}"
        return "\n".join(rows)


def measure_selection(project: Project, lines: SuiteLines) -> Iterator[str]:
    """Yield how many tests mngr misses, and how many more than needed it selects."""
    paths = sorted({*lines.outside, *(path for files in lines.tests.values() for path in files)})
    sources = {path: (project.repo / path).read_text() for path in paths if path.endswith(".py")}
    selector = AffectedTests(lines, sources)
    edits = [edit for path, text in sources.items() for edit in _list_edits(path, text)]
    source = random.Random(0)
    source.shuffle(edits)
    in_functions = [edit for edit in edits if edit.is_in_function][:_EDITS]
    ran = _find_tests_that_run(project, sources, in_functions)
    missed = selected_count = ran_count = 0
    for edit, truth in zip(in_functions, ran, strict=True):
        selected = _select(selector, lines, sources, edit)
        missed += len(truth & lines.tests.keys() - selected)
        ran_count, selected_count = ran_count + len(truth), selected_count + len(selected)
    ratio = selected_count / max(1, ran_count)
    verdict = "PASS" if not missed and ratio <= 2 else "OVER"
    yield (
        f"{project.name}: {len(in_functions)} one-line edits, {ran_count} tests run them, {missed} of these missed, "
        f"{ratio:.2f} x as many selected, of at most 2 {verdict}"
    )
    raising = [*edits[: _RAISES - _RAISES // 2], *in_functions[: _RAISES // 2]]
    passing = _run_suite(project, {}).passed
    missed = broken_count = 0
    for edit in raising:
        left = _run_suite(project, {edit.path: edit.apply(sources[edit.path])}).passed
        broken = {test for test in passing - left if test in lines.tests}
        missed += len(broken - _select(selector, lines, sources, edit))
        broken_count += len(broken)
    verdict = "OVER" if missed else "PASS"
    yield f"{project.name}: {len(raising)} exceptions at a line, {broken_count} tests fail, {missed} of these missed {verdict}"


def _select(selector: AffectedTests, lines: SuiteLines, sources: Mapping[str, str], edit: Edit) -> set[str]:
    """Return the tests that mngr selects for an edit."""
    old = sources[edit.path]
    selected = selector.find([FileChange(path=edit.path, old=old, new=edit.apply(old))])
    return set(lines.tests) if selected is None else selected


def _list_edits(path: str, text: str) -> Iterator[Edit]:
    """Yield an edit for each simple statement that begins a line."""
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    in_functions = {id(node) for function in functions for child in function.body for node in ast.walk(child)}
    rows = text.split("\n")
    for node in ast.walk(tree):
        is_simple = isinstance(node, ast.stmt) and not hasattr(node, "body") and not hasattr(node, "cases")
        if not isinstance(node, ast.stmt) or not is_simple or not rows[node.lineno - 1].isascii():
            continue
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not is_docstring and not is_future and not rows[node.lineno - 1][: node.col_offset].strip():
            yield Edit(path, node.lineno, node.col_offset, id(node) in in_functions)


@dataclass(frozen=True)
class _SuiteOutcome:
    passed: set[str]  # functions, all of whose parameters pass
    hits: dict[int, set[str]]  # the tests that ran each marked line


def _find_tests_that_run(project: Project, sources: Mapping[str, str], edits: Sequence[Edit]) -> list[set[str]]:
    """Return the tests that run the line of each edit, from one run of a copy that marks all of these lines."""
    marked: dict[str, str] = {}
    numbers = {edit: number for number, edit in enumerate(edits)}
    # The last edit of a line comes first, so that columns stay correct.
    for edit in sorted(edits, key=lambda edit: (edit.path, edit.line, -edit.column)):
        text = marked.get(edit.path, sources[edit.path])
        marked[edit.path] = edit.apply(text, f"__import__('{_PLUGIN}').hit({numbers[edit]})")
    hits = _run_suite(project, marked).hits
    return [hits.get(number, set()) for number in range(len(edits))]


def _run_suite(project: Project, replaced: Mapping[str, str]) -> _SuiteOutcome:
    """Run bare pytest in a copy of the project in which some files have other texts."""
    with tempfile.TemporaryDirectory(prefix="mngr-selection-") as place:
        copy, report = Path(place, project.repo.name), Path(place, "report")
        shutil.copytree(project.repo, copy, symlinks=True, ignore=shutil.ignore_patterns(".git", ".mngr"))
        for path, text in replaced.items():
            (copy / path).write_text(text)
        Path(place, f"{_PLUGIN}.py").write_text(_RECORDER.replace("_PLACE", repr(str(report))))
        source = str(copy / project.env.get("PYTHONPATH", "."))
        env = {
            **os.environ,
            **project.env,
            "PYTHONPATH": f"{source}{os.pathsep}{place}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        argv = [*project.pytest, "-q", "-p", _PLUGIN, "--continue-on-collection-errors"]
        subprocess.run(argv, cwd=copy, env=env, capture_output=True, timeout=_TIMEOUT, check=False)
        return _read_report(report.read_text().splitlines())


def _read_report(rows: Iterable[str]) -> _SuiteOutcome:
    passed: set[str] = set()
    failed: set[str] = set()
    hits: dict[int, set[str]] = {}
    for row in rows:
        kind, _, rest = row.partition(" ")
        if kind == "hit":
            number, _, test = rest.partition(" ")
            if test:
                hits.setdefault(int(number), set()).add(_get_function(test.rpartition(" (")[0]))
        else:
            (passed if kind == "passed" else failed).add(_get_function(rest))
    return _SuiteOutcome(passed - failed, hits)


def _get_function(test_id: str) -> str:
    """Return the test without its parameters."""
    return test_id.partition("[")[0]
