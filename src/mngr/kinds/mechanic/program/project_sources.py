"""Searches the strings in the project's own code, outside of tests and documentation, for a word."""

from __future__ import annotations

import ast
import os
import re
import subprocess
from collections.abc import Iterator

_MAX_FILE_BYTES = 500_000  # larger files are probably generated
_NON_CODE_SUFFIXES = (".md", ".rst", ".txt", ".lock", ".svg", ".csv", ".png")
_TEST_PATH = re.compile(r"(^|/)(tests?|e2e|spec|docs?|\.[^/]*)/|(^|/)(test_|conftest)[^/]*$|_test\.\w+$")


class ProjectSources:
    """The files that git tracks, read once."""

    def __init__(self, work_dir: str, tutorial: str | None) -> None:
        self._work = work_dir
        self._tutorial = tutorial
        self._files: list[tuple[str, str]] | None = None

    def has_word(self, word: str) -> bool:
        """True when the word is in a string of the Python code, or anywhere in another file."""
        pattern = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")
        return any(
            pattern.search(text)
            for path, source in self._load_files()
            if word in source
            for text in _list_strings(path, source)
        )

    def _load_files(self) -> list[tuple[str, str]]:
        if self._files is None:
            self._files = list(self._iter_files())
        return self._files

    def _iter_files(self) -> Iterator[tuple[str, str]]:
        result = subprocess.run(
            ["git", "ls-files", "-z"],
            cwd=self._work,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        for name in result.stdout.decode("utf-8", "replace").split("\0"):
            if not name or name.endswith(_NON_CODE_SUFFIXES) or _TEST_PATH.search(name) or name == self._tutorial:
                continue
            path = os.path.join(self._work, name)
            if os.path.isfile(path) and not os.path.islink(path) and os.path.getsize(path) < _MAX_FILE_BYTES:
                with open(path, encoding="utf-8", errors="replace") as file:
                    yield name, file.read()


def _list_strings(path: str, source: str) -> list[str]:
    try:
        tree = ast.parse(source) if path.endswith(".py") else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = None
    if tree is None:
        return [source]
    return [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
