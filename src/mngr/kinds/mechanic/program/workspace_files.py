"""The files that a repair has in hand, and what it found that it cannot do."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from mngr.kinds.mechanic.program import source_edits
from mngr.kinds.mechanic.program.project_sources import ProjectSources

_MAX_TITLE_LENGTH = 200  # characters


@dataclass(frozen=True)
class Escalation:
    """What needs thought, with the evidence; a row of the result's escalations."""

    kind: str
    title: str
    detail: str
    locations: list[tuple[str, int]] = field(default_factory=list)

    def to_dict(self) -> dict[str, object]:
        rows = [{"path": path, "line": line} for path, line in self.locations]
        title = " ".join(self.title.split())[:_MAX_TITLE_LENGTH]
        return {"kind": self.kind, "title": title, "detail": self.detail or title, "locations": rows}


class WorkspaceFiles:
    """Files of the workspace by their path in it; what they said first is kept."""

    def __init__(self, work: str, test: str, tutorial: str | None, keep: Callable[[dict[str, str]], None]) -> None:
        self.work = os.path.realpath(work)
        self.test = test
        self.path = test.partition("::")[0]
        self.tutorial = tutorial if tutorial and os.path.isfile(os.path.join(work, tutorial)) else None
        self.sources = ProjectSources(self.work, self.tutorial)
        self.first: dict[str, str] = {}
        self._keep = keep  # is told what the files said before the first of them is changed

    def read(self, path: str) -> str:
        with open(os.path.join(self.work, path), encoding="utf-8", newline="") as file:
            return file.read()

    def write(self, path: str, text: str) -> None:
        if path not in self.first:
            self.first[path] = self.read(path)
            self._keep(self.first)
        write_atomically(os.path.join(self.work, path), text)

    def read_all(self) -> dict[str, str]:
        """What the files in hand say now."""
        return {path: self.read(path) for path in self.first}

    def restore(self, texts: dict[str, str]) -> None:
        """Have the files say what they said at some moment."""
        for path in self.first:
            write_atomically(os.path.join(self.work, path), texts.get(path, self.first[path]))

    def parse_test_file(self) -> source_edits.PythonSource:
        """The test's own file."""
        return source_edits.PythonSource(self.read(self.path))

    def is_test_file(self, path: str) -> bool:
        return os.path.realpath(path) == os.path.join(self.work, self.path)

    def find_relative_path(self, path: str) -> str | None:
        """A path in the workspace; None for what is elsewhere or not the project's own."""
        real = os.path.realpath(os.path.join(self.work, path))
        inside = os.path.relpath(real, self.work)
        return None if inside.startswith("..") or "site-packages" in inside else inside


def write_atomically(path: str, text: str) -> None:
    """Write a file in one step, with the mode that it had."""
    with open(f"{path}.new", "w", encoding="utf-8", newline="") as file:
        file.write(text)
    if os.path.exists(path):
        os.chmod(f"{path}.new", os.stat(path).st_mode & 0o7777)
    os.replace(f"{path}.new", path)
