"""The command `mngr tmr attach`."""

from __future__ import annotations

import time

from mngr.base.errors import NotFound
from mngr.cli.framework.command_spec import CommandSpec
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.runs.run_options import RunProgress
from mngr.cli.runs.tmr.shared import RUN_ARGUMENT, get_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

_POLL_INTERVAL = 0.3  # Seconds between two reads of the journal.

COMMAND = CommandSpec(
    name="tmr attach",
    summary=COMMANDS["tmr attach"][1],
    description="mngr shows the run's progress until the run has ended. You can stop watching with Ctrl-C, and the "
    "run continues.",
    arguments=(RUN_ARGUMENT,),
    examples=(("mngr tmr attach", "Watch the latest run"),),
)


def run(cli: Cli, args: Args) -> int:
    """Show every row of the journal as it arrives, until the run ends."""
    from mngr.mapreduce.journal.journal_file import find_writer
    from mngr.overview.follow_runs import JournalFollower

    run_dir = get_run(cli, args)
    progress, journal, has_begun = RunProgress(cli), JournalFollower(run_dir.journal), False
    try:
        while True:
            is_running = find_writer(run_dir.journal) is not None
            rows = journal.read(float("inf"))
            for row in rows:
                progress(row)
            has_begun = has_begun or bool(rows)
            if not is_running and (has_begun or not _is_about_to_begin(cli, f"tmr-{run_dir.name}")):
                return 0
            time.sleep(_POLL_INTERVAL)
    finally:
        progress.close()


def _is_about_to_begin(cli: Cli, name: str) -> bool:
    """True when the agent of a detached run is starting or running."""
    try:
        return cli.fleet.get(name).state in ("STARTING", "RUNNING")
    except NotFound:
        return False
