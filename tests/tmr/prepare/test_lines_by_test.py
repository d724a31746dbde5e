"""Tests which tests a change of the code can affect."""

from __future__ import annotations

import pytest

from mngr.tmr.prepare.lines_by_test import AffectedTests, FileChange, list_changed_spans
from mngr.tmr.runners.test_run import SuiteLines

SHOP = """\
import os

LIMIT = 3


def price(name):
    if name == "pear":
        return 1
    return (
        2
    )


def total():
    # nothing yet
    return 0
"""
TEST = "from shop import price\n\n\ndef test_pear():\n    assert price('pear') == 1\n"
SOURCES = {"shop.py": SHOP, "tests/test_pear.py": TEST, "tests/test_plum.py": TEST, "tests/test_other.py": "x = 1\n"}
LINES = SuiteLines(
    tests={
        "tests/test_pear.py::test_pear": {"shop.py": [7, 8], "tests/test_pear.py": [5]},
        "tests/test_plum.py::test_plum": {"shop.py": [7, 9, 10], "tests/test_plum.py": [5]},
        "tests/test_other.py::test_other": {"tests/test_other.py": [1]},
    },
    modules={"shop": "shop.py", "test_pear": "tests/test_pear.py", "test_plum": "tests/test_plum.py"},
)


def find_names(old: str, new: str, path: str = "shop.py") -> set[str] | None:
    change = FileChange(path=path, old=SOURCES.get(path), new=SOURCES.get(path, "").replace(old, new))
    affected = AffectedTests(LINES, SOURCES).find([change])
    return None if affected is None else {test.rpartition("_")[2] for test in affected}


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("return 1", "return 5", {"pear"}),
        ("        2\n", "        3\n", {"plum"}),
        ('if name == "pear"', 'if name == "fig"', {"pear", "plum"}),
        ("LIMIT = 3", "LIMIT = 4", {"pear", "plum"}),
        ("def price(name)", "def price(name, more=0)", {"pear", "plum"}),
        ("return 0", "return 9", set()),
        ("# nothing yet", "# later", set()),
        ("        return 1\n", "        print()\n        return 1\n", {"pear", "plum"}),
        ("def total():", "def broken(:", None),
    ],
)
def test_a_changed_line_affects_the_tests_that_ran_its_statement(old: str, new: str, names: set[str] | None) -> None:
    assert find_names(old, new) == names


def test_a_change_of_a_test_affects_this_test_alone() -> None:
    assert find_names("== 1", "== 2", "tests/test_pear.py") == {"pear"}


@pytest.mark.parametrize("path", ["data.json", "setup.cfg", "README.md"])
def test_a_file_that_is_not_python_affects_all_tests(path: str) -> None:
    change = FileChange(path=path, old="a", new="b")
    assert AffectedTests(LINES, SOURCES).find([change]) is None


def test_a_new_or_deleted_python_file_affects_all_tests() -> None:
    assert AffectedTests(LINES, SOURCES).find([FileChange(path="new.py", old=None, new="x = 1\n")]) is None


def test_a_module_that_no_test_imports_counts_for_all_tests_when_its_import_changes() -> None:
    lines = LINES.replace(modules={**LINES.modules, "plugin": "plugin.py"})
    change = FileChange(path="plugin.py", old="x = 1\n", new="x = 2\n")
    assert AffectedTests(lines, {**SOURCES, "plugin.py": "x = 1\n"}).find([change]) == set(LINES.tests)


def test_an_edit_of_a_decorator_belongs_to_its_function() -> None:
    old = "import f\n\n\n@f.one\ndef work():\n    return 1\n"
    assert list_changed_spans(old, old.replace("f.one", "f.two")) == [(4, 5, True)]
