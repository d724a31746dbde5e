"""Holds the files that a repair changes, and the escalations for what it cannot repair."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from mngr.kinds.mechanic.program import source_edits
from mngr.kinds.mechanic.program.project_sources import ProjectSources

_MAX_TITLE_LENGTH = 200  # characters


@dataclass(frozen=True)
class Escalation:
    """A problem that needs a person or a model, with the evidence. It is one row of the result's escalations."""

    kind: str
    title: str
    detail: str
    locations: list[tuple[str, int]] = field(default_factory=list)

    def to_dict(self) -> dict[str, object]:
        rows = [{"path": path, "line": line} for path, line in self.locations]
        title = " ".join(self.title.split())[:_MAX_TITLE_LENGTH]
        return {"kind": self.kind, "title": title, "detail": self.detail or title, "locations": rows}


class WorkspaceFiles:
    """Reads and writes files of the work dir by relative path, and keeps their original texts."""

    def __init__(
        self, work_dir: str, test: str, tutorial: str | None, save_originals: Callable[[dict[str, str]], None]
    ) -> None:
        self.work = os.path.realpath(work_dir)
        self.test = test
        self.path = test.partition("::")[0]
        self.tutorial = tutorial if tutorial and os.path.isfile(os.path.join(work_dir, tutorial)) else None
        self.sources = ProjectSources(self.work, self.tutorial)
        self.first: dict[str, str] = {}
        self._keep = save_originals  # gets the original texts before each file is first changed

    def read(self, path: str) -> str:
        with open(os.path.join(self.work, path), encoding="utf-8", newline="") as file:
            return file.read()

    def write(self, path: str, text: str) -> None:
        if path not in self.first:
            self.first[path] = self.read(path)
            self._keep(self.first)
        write_atomically(os.path.join(self.work, path), text)

    def read_changed_files(self) -> dict[str, str]:
        """Return the current texts of all files that were changed."""
        return {path: self.read(path) for path in self.first}

    def restore(self, texts: dict[str, str]) -> None:
        """Write these texts back; files without a text get their original one."""
        for path in self.first:
            write_atomically(os.path.join(self.work, path), texts.get(path, self.first[path]))

    def parse_test_file(self) -> source_edits.PythonSource:
        """Return the parsed file of the test."""
        return source_edits.PythonSource(self.read(self.path))

    def is_test_file(self, path: str) -> bool:
        return os.path.realpath(path) == os.path.join(self.work, self.path)

    def find_relative_path(self, path: str) -> str | None:
        """Return the path relative to the work dir, or None when the file is not the project's own."""
        real = os.path.realpath(os.path.join(self.work, path))
        relative = os.path.relpath(real, self.work)
        return None if relative.startswith("..") or "site-packages" in relative else relative


def write_atomically(path: str, text: str) -> None:
    """Write a file in one step and keep its mode."""
    with open(f"{path}.new", "w", encoding="utf-8", newline="") as file:
        file.write(text)
    if os.path.exists(path):
        os.chmod(f"{path}.new", os.stat(path).st_mode & 0o7777)
    os.replace(f"{path}.new", path)
