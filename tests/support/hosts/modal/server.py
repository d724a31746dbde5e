"""The control plane as a process of its own that ends with us, and what tests ask of it."""

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
    """The Python that has a version of the library."""
    found = ROOT / ".engines" / version / "bin" / "python"
    if not found.exists():
        raise RuntimeError(f"there is no {found}: `make test-hosts` makes it, by scripts/engines.sh {version}")
    return found


class Modal:
    """`with Modal() as modal:` an empty workspace; `env` is what the library needs to find it."""

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
        """Where it listens."""
        host, _, port = self.url.rpartition("/")[2].partition(":")
        return host, int(port)

    def fail(self, **faults: float | str) -> None:
        """Have it refuse or delay from now on: create_rate, max_sandboxes, list_lag, boot_delay, snapshot_delay, exit_fails, end_fails.

        `router` is where it says that commands go.
        """
        fresh = self.state / "faults.json.new"
        fresh.write_text(json.dumps(faults))
        fresh.replace(self.state / "faults.json")

    def left(self) -> dict[str, Any]:
        """What there is: sandboxes with what they were made with, and the images that were made of some."""
        found: dict[str, Any] = json.loads((self.state / "left.json").read_text())
        return found

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Meanwhile it takes connections and says nothing."""
        self._server.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._server.send_signal(signal.SIGCONT)

    def reset(self) -> None:
        """As new: no sandbox, no image but those that were built, no fault."""
        (self.state / "reset").unlink(missing_ok=True)
        self._server.send_signal(signal.SIGUSR1)
        wait_until((self.state / "reset").exists, self._server, self.state / "log")

    def stop(self) -> None:
        """End all of it."""
        try:
            end(self._server)
        finally:
            self._place.close()
