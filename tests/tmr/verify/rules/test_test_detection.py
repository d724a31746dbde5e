"""Code of the implementation that looks for tests."""

from __future__ import annotations

import pytest

from mngr.tmr.verify.rules.changed_file import ChangedFile
from mngr.tmr.verify.rules.test_detection import list_test_detections


def _rules(new: str, old: str | None = None) -> list[str]:
    change = ChangedFile(path="src/shop/price.py", old=old, new=new)
    return [finding.rule for finding in list_test_detections(change)]


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("import pytest", "imports-pytest"),
        ("from unittest.mock import ANY", "imports-pytest"),
        ("import importlib\nx = importlib.import_module('pytest')", "imports-pytest"),
        ("import sys\nx = 'pytest' in sys.modules", "detects-pytest"),
        ("import sys\nx = 'py' + 'test' in sys.modules", "detects-pytest"),
        ("import os\nx = os.environ.get('PYTEST_CURRENT_TEST')", "reads-test-variable"),
        ("import os\nx = os.environ.get('PYTEST_' + 'VERSION')", "reads-test-variable"),
        ("import inspect\nx = inspect.stack()", "reads-stack"),
        ("from sys import _getframe as look\nx = look(1)", "reads-stack"),
        ("def f(e): return e.__traceback__.tb_frame", "reads-stack"),
        ("x = open('tests/test_price.py').read()", "opens-tests"),
        ("from pathlib import Path\nx = Path('.') / 'test_price.py'", "opens-tests"),
        ("class Price:\n    def __eq__(self, other):\n        return True", "always-equal"),
    ],
)
def test_code_that_looks_for_tests_is_a_note(code: str, rule: str) -> None:
    assert rule in _rules(code)
    findings = list_test_detections(ChangedFile(path="src/shop/price.py", old=None, new=code))
    assert {finding.level for finding in findings} == {"note"}


@pytest.mark.parametrize(
    "code",
    [
        "def latest(x): return x",
        '"""Run it with pytest: PYTEST_CURRENT_TEST is ignored."""',
        "import sys\nx = sys.argv",
        "class Price:\n    def __eq__(self, other):\n        return self.coins == other.coins",
        "x = 'a test of contests/latest_file.txt'",
    ],
)
def test_ordinary_code_is_no_finding(code: str) -> None:
    assert _rules(code) == []


def test_code_that_looked_for_tests_before_is_no_finding() -> None:
    old = "import inspect\nx = inspect.stack()\n"
    assert _rules(old + "y = 1\n", old) == []
    assert _rules(old + "y = inspect.stack()\n", old) == ["reads-stack"]
