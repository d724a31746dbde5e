"""Reads the files of a project that say how it is built and tested. A file that cannot be read counts as empty."""

from __future__ import annotations

import ast
import configparser
import os
import re
import tomllib

from mngr.base.model import Struct
from mngr.base.untrusted_json import get_object

_MAX_FILE_BYTES = 1 << 20
_PACKAGE_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
_NOT_PACKAGES = ("node_modules", "docs", "doc", "examples", "example", "vendor", "third_party", "build", "dist")


class ProjectFiles(Struct):
    """The files in one folder of a project, and the contents of its pyproject.toml."""

    root: str
    folder: str = ""  # the Python package's folder, relative to the root
    names: frozenset[str]
    pyproject: dict[str, object]

    @property
    def is_python(self) -> bool:
        """True when the folder has a file that describes a Python package."""
        return self.find_first(_PACKAGE_FILES) is not None

    def get_table(self, *path: str) -> dict[str, object]:
        """Return a table of pyproject.toml, or an empty one."""
        table = self.pyproject
        for part in path:
            table = get_object(table, part)
        return table

    def find_first(self, names: tuple[str, ...]) -> str | None:
        """Return the first of the names that the folder has."""
        return next((name for name in names if name in self.names), None)

    def get_path(self, name: str) -> str:
        """Return the path of a file in the folder, relative to the root."""
        return os.path.join(self.folder, name)

    def read_text(self, name: str) -> str:
        """Return the text of a file, or an empty text."""
        path = os.path.join(self.root, self.folder, name)
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read(_MAX_FILE_BYTES) if os.path.isfile(path) else ""
        except OSError:
            return ""

    def read_ini(self, name: str) -> configparser.RawConfigParser:
        """Return a file in INI format, without the sections that cannot be read."""
        return parse_ini(self.read_text(name))

    def read_python(self, name: str) -> ast.Module | None:
        """Return the syntax tree of a Python file, or None."""
        try:
            return ast.parse(self.read_text(name))
        except (SyntaxError, ValueError):
            return None


def parse_ini(text: str) -> configparser.RawConfigParser:
    """Return a text in INI format; an invalid text has no sections."""
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True, interpolation=None)
    try:
        parser.read_string(text)
    except configparser.Error:
        return configparser.RawConfigParser()
    return parser


def read_project(root: str, folder: str = "") -> ProjectFiles:
    """Return the files of a project's folder."""
    names = frozenset(list_names(os.path.join(root, folder)))
    files = ProjectFiles(root=root, folder=folder, names=names, pyproject={})
    try:
        return files.replace(pyproject=tomllib.loads(files.read_text("pyproject.toml")))
    except (tomllib.TOMLDecodeError, RecursionError):
        return files


def find_python_project(root: str) -> ProjectFiles:
    """Return the folder with the Python package: the root, or a folder below it that alone has a package."""
    top = read_project(root)
    if top.is_python or any(re.fullmatch(r".*requirements.*\.txt", name) for name in top.names):
        return top
    for depth in (1, 2):
        folders = [folder for folder in _list_folders(root, depth) if read_project(root, folder).is_python]
        if folders:
            return read_project(root, folders[0]) if len(folders) == 1 else top
    return top


def _list_folders(root: str, depth: int) -> list[str]:
    """Return the folders at a depth below the root, relative to it, that may hold a package."""
    folders = [""]
    for _ in range(depth):
        folders = [
            os.path.join(folder, name)
            for folder in folders
            for name in list_names(os.path.join(root, folder))
            if not name.startswith(".")
            and name not in _NOT_PACKAGES
            and os.path.isdir(os.path.join(root, folder, name))
        ]
    return folders


def has_modules(files: ProjectFiles, folder: str) -> bool:
    """True when a folder contains Python modules or packages."""
    path = os.path.join(files.root, files.folder, folder)
    return any(
        name.endswith(".py") or os.path.isfile(os.path.join(path, name, "__init__.py")) for name in list_names(path)
    )


def list_names(folder: str) -> list[str]:
    """Return the sorted names in a folder, or none when it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
