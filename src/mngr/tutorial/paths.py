"""Where the tutorial and its tests are: as given, else as set, else where they mostly are."""

from __future__ import annotations

import os

from mngr.agents.context import Context
from mngr.base import paths


class TutorialPaths:
    """Paths of one project; `shown` is how people are told of them."""

    def __init__(self, ctx: Context, file: str | None = None, tests: str | None = None) -> None:
        self.cwd = ctx.cwd
        self.root = paths.find_project_root(ctx.cwd) or ctx.cwd
        self.file = self._choose_path(ctx, file, "tutorial.file", "tutorial.sh")
        self.tests = self._choose_path(ctx, tests, "tutorial.tests", "tests")
        self.artifacts = os.path.join(self.root, ".mngr", "e2e")

    def _choose_path(self, ctx: Context, given: str | None, setting: str, usual: str) -> str:
        if given is not None:
            return os.path.normpath(ctx.resolve_path(given))
        return os.path.normpath(os.path.join(self.root, ctx.settings.get(setting) or usual))

    def to_display_path(self, path: str) -> str:
        """From the project's root where it is inside, so that it is the same from every directory."""
        short = os.path.relpath(path, self.root)
        return path if short.startswith("..") else short

    def to_full_path(self, shown: str) -> str:
        """The path behind what `shown` gave."""
        return os.path.join(self.root, shown)
