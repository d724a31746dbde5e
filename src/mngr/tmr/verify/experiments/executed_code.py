"""The code of the project that a test runs, without test code."""

from __future__ import annotations

from collections.abc import Sequence

from mngr.base.model import Struct
from mngr.tmr.prepare.root_causes import is_test_code
from mngr.tmr.runners.test_run import TestRun
from mngr.tmr.verify.experiments.experiment import ExperimentInputs

_MAX_SOURCE = 200_000  # characters of a file into which mngr puts faults


class ExecutedCode(Struct):
    """The texts of the files that a test runs, and the executed lines of each."""

    sources: dict[str, str]
    lines: dict[str, set[int]]


def read_executed_code(inputs: ExperimentInputs, runs: Sequence[TestRun]) -> ExecutedCode:
    """Return the code that one of these runs executed."""
    lines: dict[str, set[int]] = {}
    for run in runs:
        for path, numbers in run.lines.items():
            if path.endswith(".py") and path != inputs.test.path and not is_test_code(path):
                lines.setdefault(path, set()).update(numbers)
    sources = {path: text for path, text in inputs.read_files(lines).items() if len(text) <= _MAX_SOURCE}
    return ExecutedCode(sources=sources, lines={path: lines[path] for path in sources})
