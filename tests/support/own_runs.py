"""Makes a run that a test built by hand, or copied, a run of the test's own home."""

from __future__ import annotations

from pathlib import Path

from mngr.base.paths import Home
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_repo import register_run


def adopt_run(home: Path, run: RunDir) -> None:
    """Register the folder of a run as one that this home created."""
    Path(run.path, "id").unlink(missing_ok=True)
    register_run(Home(str(home)), run)
