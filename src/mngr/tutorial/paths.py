"""Finds the tutorial and its tests: from the arguments, else from the settings, else at the usual paths."""

from __future__ import annotations

import os

from mngr.agents.context import Context
from mngr.base import paths, shell
from mngr.base.errors import MngrError


class TutorialPaths:
    """The paths of one project's tutorial, tests and artifacts."""

    def __init__(self, ctx: Context, file: str | None = None, tests: str | None = None) -> None:
        self.cwd = ctx.cwd
        self.root = paths.find_project_root(ctx.cwd) or ctx.cwd
        self.file = self._choose_path(ctx, file, "tutorial.file", "tutorial.sh")
        self.tests = self._choose_path(ctx, tests, "tutorial.tests", "tests")
        self.artifacts = os.path.join(self.root, ".mngr", "e2e")

    def _choose_path(self, ctx: Context, argument: str | None, setting: str, default: str) -> str:
        if argument is not None:
            return os.path.normpath(ctx.resolve_path(argument))
        path = os.path.normpath(os.path.join(self.root, ctx.settings.get(setting) or default))
        root = os.path.realpath(self.root)
        if os.path.islink(path) and os.path.commonpath([os.path.realpath(path), root]) != root:
            raise MngrError(  # An agent would get the content of the user's file.
                f"{self.to_display_path(path)} is a link that leads out of the project",
                f"replace it with a file or directory: rm {shell.quote(path)}",
            )
        return path

    def to_display_path(self, path: str) -> str:
        """Return the path relative to the project root, or the path itself when it is outside."""
        relative = os.path.relpath(path, self.root)
        return path if relative.startswith("..") else relative

    def to_full_path(self, display_path: str) -> str:
        """Return the full path of a path that `to_display_path` returned."""
        return os.path.join(self.root, display_path)
