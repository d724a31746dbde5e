"""Where the tutorial and its tests are: as given, else as set, else where they mostly are."""

from __future__ import annotations

import os

from mngr.agents.context import Context
from mngr.base import paths


class Places:
    """Paths of one project; `shown` is how people are told of them."""

    def __init__(self, ctx: Context, file: str | None = None, tests: str | None = None) -> None:
        self.cwd = ctx.cwd
        self.root = paths.find_project_root(ctx.cwd) or ctx.cwd
        self.file = self._place(ctx, file, "tutorial.file", "tutorial.sh")
        self.tests = self._place(ctx, tests, "tutorial.tests", "tests")
        self.artifacts = os.path.join(self.root, ".mngr", "e2e")

    def _place(self, ctx: Context, given: str | None, setting: str, usual: str) -> str:
        if given is not None:
            return os.path.normpath(ctx.path(given))
        return os.path.normpath(os.path.join(self.root, ctx.settings.get(setting) or usual))

    def shown(self, path: str) -> str:
        """From the project's root where it is inside, so that it is the same from every directory."""
        short = os.path.relpath(path, self.root)
        return path if short.startswith("..") else short

    def full(self, shown: str) -> str:
        """The path behind what `shown` gave."""
        return os.path.join(self.root, shown)
