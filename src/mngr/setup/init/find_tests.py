"""Finds the test files of a project and the command that runs them."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator

from mngr.base.model import Struct
from mngr.setup.init.project_files import ProjectFiles, list_names
from mngr.setup.init.pytest_needs import read_pytest_settings

_SKIPPED_FOLDERS = frozenset(
    ("node_modules", "venv", "env", "build", "dist", "site-packages", "__pycache__", "vendor", "third_party")
)
_MAX_FOLDERS = 3000
_MAX_FILES = 300  # test files that `init` reads
_PYTEST_PATTERNS = ("test_*.py", "*_test.py")
_UNITTEST_CLASS = re.compile(r"^class\s+\w+\(.*TestCase\b", re.MULTILINE)


class FoundTests(Struct):
    """The test files of a project."""

    reason: str = ""  # what shows that there are tests; empty: nothing does
    files: list[str] = []  # relative to the root
    pattern: str = ""  # for files that pytest does not collect by itself


def find_tests(files: ProjectFiles) -> FoundTests:
    """Return the tests of the project. unittest's files count, too: pytest runs them."""
    test_files: list[str] = []
    other_files: list[str] = []
    for path in _iter_python_files(files.root):
        name = os.path.basename(path)
        if any(fnmatch.fnmatch(name, pattern) for pattern in _PYTEST_PATTERNS):
            test_files.append(path)
        elif fnmatch.fnmatch(name, "test*.py") and _has_unittest_class(files, path):
            other_files.append(path)
        if len(test_files) >= _MAX_FILES:
            break
    settings = read_pytest_settings(files)
    pattern = "" if test_files or not other_files or "python_files" in settings else "test*.py"
    reason = _find_settings_reason(files, settings) or next(iter([*test_files, *other_files]), "")
    return FoundTests(reason=reason, files=[*test_files, *other_files], pattern=pattern)


def _find_settings_reason(files: ProjectFiles, settings: dict[str, object]) -> str:
    """Return the file that sets up pytest, or an empty text."""
    name = files.find_first(("pytest.ini", "conftest.py"))
    if name:
        return name
    if "pytest" in files.get_table("tool"):
        return "[tool.pytest] in pyproject.toml"
    return "pytest's settings" if settings else ""


def _has_unittest_class(files: ProjectFiles, path: str) -> bool:
    return _UNITTEST_CLASS.search(files.replace(folder="").read_text(path)) is not None


def _iter_python_files(root: str) -> Iterator[str]:
    """Yield the Python files of the project, those in folders of tests first."""
    folders, visited = [""], 0
    while folders and visited < _MAX_FOLDERS:
        folder = folders.pop(0)
        visited += 1
        inner: list[str] = []
        for name in list_names(os.path.join(root, folder)):
            path = os.path.join(folder, name)
            if name.endswith(".py"):
                yield path
            elif name not in _SKIPPED_FOLDERS and _is_source_folder(os.path.join(root, path)):
                inner.append(path)
        folders = sorted(inner, key=lambda path: "test" not in path) + folders


def _is_source_folder(path: str) -> bool:
    """True for a folder that may hold files of the project: not hidden, not a link, not a virtual environment."""
    if os.path.basename(path).startswith(".") or os.path.islink(path) or not os.path.isdir(path):
        return False
    return not os.path.exists(os.path.join(path, "pyvenv.cfg"))
