"""Changes of the machinery that runs tests."""

from __future__ import annotations

import pytest

from mngr.tmr.verify.rules.changed_file import ChangedFile
from mngr.tmr.verify.rules.harness_code import list_harness_changes, list_pytest_settings_changes


def _levels(new: str, old: str | None = None, path: str = "tests/conftest.py") -> dict[str, str]:
    return {finding.rule: finding.level for finding in list_harness_changes(ChangedFile(path=path, old=old, new=new))}


@pytest.mark.parametrize(
    ("code", "rule", "level"),
    [
        ("def pytest_runtest_makereport(item, call): ...", "hook-changed", "refuse"),
        ("def pytest_configure(config): ...", "hook-changed", "note"),
        ("from helpers import pytest_collection_modifyitems", "hook-changed", "note"),
        ("pytest_plugins = ['other']", "plugin-added", "refuse"),
        ("import pytest\npytest.fail = print", "test-tool-changed", "refuse"),
        ("import _pytest.runner", "test-tool-changed", "refuse"),
        ("import builtins\nsetattr(builtins, 'len', abs)", "test-tool-changed", "refuse"),
        ("import sys\nsys.modules['shop'] = None", "test-tool-changed", "refuse"),
        ("import pytest\n@pytest.fixture(autouse=True)\ndef quiet(): ...", "fixture-changed", "note"),
    ],
)
def test_code_that_changes_how_tests_run_is_found(code: str, rule: str, level: str) -> None:
    assert _levels(code) == {rule: level}
    assert _levels(code, path="src/shop/price.py") == {rule: level}


def test_machinery_that_was_there_before_is_no_finding() -> None:
    hook = "def pytest_runtest_makereport(item, call): ...\n"
    assert _levels(hook + "X = 1\n", old=hook) == {}
    assert _levels(hook.replace("...", "return None"), old=hook) == {"hook-changed": "refuse"}


def test_a_hook_that_only_declares_options_is_no_finding() -> None:
    assert _levels("def pytest_addoption(parser): ...") == {}


@pytest.mark.parametrize(
    ("path", "old", "new", "is_found"),
    [
        ("pyproject.toml", "[tool.pytest.ini_options]\naddopts = '-q'\n", "[tool.pytest.ini_options]\naddopts = '-p x'\n", True),
        ("pyproject.toml", "", "[project.entry-points.pytest11]\nx = 'x'\n", True),
        ("pyproject.toml", "[project]\nname = 'a'\n", "[project]\nname = 'b'\n", False),
        ("setup.cfg", "[metadata]\nname = a\n", "[metadata]\nname = a\n[tool:pytest]\naddopts = -x\n", True),
        ("tox.ini", "[tox]\n", "[tox]\nx = 1\n", False),
    ],
)  # fmt: skip
def test_pytest_settings_are_told_from_other_settings(path: str, old: str, new: str, is_found: bool) -> None:
    found = list(list_pytest_settings_changes(ChangedFile(path=path, old=old, new=new)))
    assert bool(found) == is_found
