"""Runs the control plane as its own process, which ends with this one, and lets tests inspect it."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.hosts.place import Place, end, start, undone, wait_until
from tests.support.paths import ROOT

NEWEST = "modal"


def python(version: str = NEWEST) -> Path:
    """Return the Python that has a version of the library."""
    path = ROOT / ".engines" / version / "bin" / "python"
    if not path.exists():
        raise RuntimeError(f"there is no {path}: `make test-hosts` makes it, by scripts/engines.sh {version}")
    return path


class Modal:
    """An empty workspace. `env` has the variables with which the library finds it."""

    def __init__(self, under: str = "/var/tmp") -> None:
        self._place = Place("modal", under)
        self.state = self._place.dir
        log = self.state / "log"
        hidden = [str(ROOT)]
        argv = [
            "unshare",
            "--mount",
            str(python()),
            "-m",
            "tests.support.hosts.modal",
            str(self.state),
            *hidden,
        ]
        with undone(self._place.close):
            self._server = start(argv, log, "KILL")
            wait_until((self.state / "url").exists, self._server, log)
        self.url = (self.state / "url").read_text()
        self.env = {
            "MODAL_SERVER_URL": self.url,
            "MODAL_TOKEN_ID": "ak-loopback",
            "MODAL_TOKEN_SECRET": "as-loopback",
            "MODAL_CONFIG_PATH": "/nonexistent",
            "MODAL_DISABLE_API_PROXY": "1",
        }

    def __enter__(self) -> Modal:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def address(self) -> tuple[str, int]:
        """The address on which it listens."""
        host, _, port = self.url.rpartition("/")[2].partition(":")
        return host, int(port)

    def fail(self, **faults: float | str) -> None:
        """Make the control plane reject or delay requests from now on.

        The faults are create_rate, max_sandboxes, list_lag, boot_delay, snapshot_delay, exit_fails and end_fails.
        `router` is the address that it names as the command router.
        """
        new_path = self.state / "faults.json.new"
        new_path.write_text(json.dumps(faults))
        new_path.replace(self.state / "faults.json")

    def left(self) -> dict[str, Any]:
        """Return what exists: the sandboxes with their settings, and the images made from sandboxes."""
        state: dict[str, Any] = json.loads((self.state / "left.json").read_text())
        return state

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Let the control plane accept connections without an answer during the block."""
        self._server.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._server.send_signal(signal.SIGCONT)

    def reset(self) -> None:
        """Remove all sandboxes, faults and images, except the images that were built."""
        (self.state / "reset").unlink(missing_ok=True)
        self._server.send_signal(signal.SIGUSR1)
        wait_until((self.state / "reset").exists, self._server, self.state / "log")

    def stop(self) -> None:
        """Stop the control plane."""
        try:
            end(self._server)
        finally:
            self._place.close()
