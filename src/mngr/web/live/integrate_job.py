"""Rebuilds and verifies the branch of a run without one change, by the command that a person would use."""

from __future__ import annotations

import os
import sys
import tempfile

from mngr.agents.context import Context
from mngr.base import shell
from mngr.overview.untrusted_text import split_lines

_MAX_OUTPUT_BYTES = 20_000
_MAX_LINES = 30


class IntegrateJob:
    """A running or finished `mngr tmr integrate RUN --without CHANGE`. It goes on when the server ends."""

    def __init__(self, context: Context, root: str, run: str, change: str, reason: str) -> None:
        self.change = change
        words = ["tmr", "integrate", run, "--home", context.home.root, "--without", change]
        if reason:
            words += ["--reason", reason]
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the job is shown)
        self._process = shell.start_process(
            [sys.executable, "-m", "mngr", *words],
            stdin=shell.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            cwd=root,
            new_session=True,
        )

    @property
    def is_running(self) -> bool:
        """True until the command has ended."""
        return self._process.poll() is None

    @property
    def status(self) -> str:
        """Return how far the job is, in words."""
        code = self._process.poll()
        if code is None:
            return f"mngr rebuilds the branch without {self.change} and runs its tests"
        if code in (0, 4):
            return f"mngr rebuilt the branch without {self.change} and verified it"
        return f"mngr could not rebuild the branch without {self.change} (exit code {code})"

    def read_lines(self) -> list[str]:
        """Return the last lines that the command printed."""
        size = os.fstat(self._output.fileno()).st_size
        text = os.pread(self._output.fileno(), _MAX_OUTPUT_BYTES, max(0, size - _MAX_OUTPUT_BYTES))
        return split_lines(text.decode("utf-8", "replace"))[-_MAX_LINES:]
