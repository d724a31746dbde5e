"""Tests which packages mngr adds after a collection has failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from mngr.setup.init.project_files import read_project
from mngr.setup.init.pytest_needs import list_missing_packages


@pytest.mark.parametrize(
    ("output", "declared", "expected"),
    [
        ("ModuleNotFoundError: No module named 'yaml'", [], ["PyYAML"]),
        ("/x/python: No module named pytest", [], ["pytest"]),
        ("ModuleNotFoundError: No module named 'numpy.core'", ["numpy>=2"], ["numpy>=2"]),
        ("ModuleNotFoundError: No module named 'box_kit'", ["Box.Kit~=1.0"], ["Box.Kit~=1.0"]),
        ("ModuleNotFoundError: No module named 'nobody_knows_this'", [], []),
        ("ModuleNotFoundError: No module named 'own'", ["own"], []),
        ("error: unrecognized arguments: --cov=a --cov-report=xml -n4", [], ["pytest-cov", "pytest-cov", "pytest-xdist"]),
        ("ERROR: Missing required plugins: pytest-env, pytest-cov>=4", [], ["pytest-env", "pytest-cov>=4"]),
        ("'asyncio' not found in `markers` configuration option", [], ["pytest-asyncio"]),
        ("PytestConfigWarning: Unknown config option: timeout", [], ["pytest-timeout"]),
        ("Argument(s) {'path'} are declared in the hookimpl but can not be found in the hookspec", [], ["pytest<9"]),
        ("E   AssertionError", ["x"], []),
    ],
)  # fmt: skip
def test_missing_packages_are_added_only_if_they_are_known(
    tmp_path: Path, output: str, declared: list[str], expected: list[str]
) -> None:
    """mngr installs a package only if the project names it or if it is a common one."""
    (tmp_path / "own.py").write_text("")
    missing = list_missing_packages(output, declared, read_project(str(tmp_path)))
    assert [need.package for need in missing] == expected
