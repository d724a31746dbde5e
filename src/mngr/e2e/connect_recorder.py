"""`mngr-e2e-connect`: a connect command that lets asciinema record the agent instead of taking over the terminal."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from mngr.e2e.asciicast import choose_unused_path

START_TIMEOUT = 10.0  # seconds until the first event is recorded


def main() -> int:
    """Start a recording in the background and return 0 once it runs. It ends with the agent or with the test."""
    name, artifacts_dir = os.environ.get("MNGR_AGENT_NAME"), os.environ.get("MNGR_E2E_ARTIFACTS")
    if not name or not artifacts_dir:
        return _print_error(
            "this program works only in a test with the fixture e2e",
            "use it in the test: mngr connect NAME --connect-command mngr-e2e-connect",
        )
    if shutil.which("asciinema") is None:
        return _print_error("asciinema is not installed", "install it: pip install 'asciinema<3'")
    cast = _choose_cast_path(Path(artifacts_dir), name)
    rows, columns = os.environ.get("LINES", "24"), os.environ.get("COLUMNS", "80")
    # `mngr connect` must not start this command again.
    overrides = {f"MNGR__COMMANDS__{command}__CONNECT_COMMAND": "" for command in ("CREATE", "CONNECT")}
    env = {key: value for key, value in os.environ.items() if not key.startswith("MNGR_AGENT_")}
    options = ["-q", "--overwrite", "--cols", columns, "--rows", rows, "-t", name]
    recorder = subprocess.Popen(
        ["asciinema", "rec", *options, "-c", f"mngr connect {name}", str(cast)],
        env={**env, **overrides, "TERM": "xterm-256color"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + START_TIMEOUT
    while not _has_events(cast):
        if recorder.poll() is not None or time.monotonic() > deadline:
            return _print_error(
                f"the recording of {name} did not start", f"try the connection by hand: mngr connect {name}"
            )
        time.sleep(0.02)
    return 0


def _choose_cast_path(artifacts_dir: Path, name: str) -> Path:
    """Return the recording that the test asked for if it is still empty, otherwise an unused path."""
    requested = os.environ.get("MNGR_E2E_CAST")
    if not requested:
        return choose_unused_path(artifacts_dir, name)
    return choose_unused_path(artifacts_dir, Path(requested).stem) if os.path.getsize(requested) else Path(requested)


def _has_events(cast: Path) -> bool:
    """True when the recording holds more than its header line."""
    return cast.exists() and cast.read_bytes().count(b"\n") > 1


def _print_error(message: str, hint: str) -> int:
    sys.stderr.write(f"Error: mngr-e2e-connect: {message}\nHint: {hint}\n")
    return 1
