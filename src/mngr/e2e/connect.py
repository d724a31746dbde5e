"""`mngr-e2e-connect`: a connect command that takes over no terminal, but has asciinema record the agent's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from mngr.e2e.cast import choose_unused_path

START_TIMEOUT = 10.0  # seconds until the first picture


def main() -> int:
    """Start a recording in the background; 0 once it runs. It ends with the agent, or with the test."""
    name, place = os.environ.get("MNGR_AGENT_NAME"), os.environ.get("MNGR_E2E_ARTIFACTS")
    if not name or not place:
        return _print_error(
            "it is run by mngr in a test with the fixture e2e",
            "mngr connect NAME --connect-command mngr-e2e-connect",
        )
    if shutil.which("asciinema") is None:
        return _print_error("asciinema is not installed", "pip install 'asciinema<3'")
    cast = _choose_cast_path(Path(place), name)
    rows, columns = os.environ.get("LINES", "24"), os.environ.get("COLUMNS", "80")
    # The setting that led here must not lead here again.
    again = {f"MNGR__COMMANDS__{command}__CONNECT_COMMAND": "" for command in ("CREATE", "CONNECT")}
    env = {key: value for key, value in os.environ.items() if not key.startswith("MNGR_AGENT_")}
    options = ["-q", "--overwrite", "--cols", columns, "--rows", rows, "-t", name]
    recorder = subprocess.Popen(
        ["asciinema", "rec", *options, "-c", f"mngr connect {name}", str(cast)],
        env={**env, **again, "TERM": "xterm-256color"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + START_TIMEOUT
    while not _has_events(cast):
        if recorder.poll() is not None or time.monotonic() > deadline:
            return _print_error(f"the recording of {name} did not begin", f"try it: mngr connect {name}")
        time.sleep(0.02)
    return 0


def _choose_cast_path(place: Path, name: str) -> Path:
    """The one that the test has named, if nothing is in it yet; else one of its own."""
    named = os.environ.get("MNGR_E2E_CAST")
    if not named:
        return choose_unused_path(place, name)
    return choose_unused_path(place, Path(named).stem) if os.path.getsize(named) else Path(named)


def _has_events(cast: Path) -> bool:
    """Whether there is more than the line about the terminal."""
    return cast.exists() and cast.read_bytes().count(b"\n") > 1


def _print_error(why: str, hint: str) -> int:
    sys.stderr.write(f"Error: mngr-e2e-connect: {why}\nHint: {hint}\n")
    return 1
