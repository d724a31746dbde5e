"""`mngr tmr attach`."""

from __future__ import annotations

import time

from mngr.base.errors import NotFound
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.spec import CommandSpec
from mngr.cli.runs.run_options import RunProgress
from mngr.cli.runs.tmr.shared import RUN_ARGUMENT, get_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.parse import Args

_POLL_INTERVAL = 0.3  # seconds between two looks at the journal

COMMAND = CommandSpec(
    name="tmr attach",
    summary=COMMANDS["tmr attach"][1],
    description="Shows the run as it goes on, from its journal, until it ends; Ctrl-C leaves it alone.",
    arguments=(RUN_ARGUMENT,),
    examples=(("mngr tmr attach", "watch the latest run"),),
)


def run(cli: Cli, args: Args) -> int:
    """Show every row as it comes."""
    from mngr.mapreduce.journal import find_writer, read_journal

    place = get_run(cli, args)
    say, seen = RunProgress(cli), 0
    try:
        while True:
            goes_on = find_writer(place.journal) is not None
            rows = read_journal(place.journal)
            for row in rows[seen:]:
                say(row)
            seen = len(rows)
            if not goes_on and not (not rows and _is_about_to_begin(cli, f"tmr-{place.name}")):
                return 0
            time.sleep(_POLL_INTERVAL)
    finally:
        say.close()


def _is_about_to_begin(cli: Cli, name: str) -> bool:
    """Whether a run that was detached is about to begin."""
    try:
        return cli.fleet.get(name).state in ("STARTING", "RUNNING")
    except NotFound:
        return False
