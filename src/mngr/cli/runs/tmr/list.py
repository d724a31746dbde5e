"""`mngr tmr list`."""

from __future__ import annotations

from mngr.cli.framework import render
from mngr.cli.framework.spec import Command
from mngr.cli.framework.table import COMMANDS
from mngr.cli.runs.shared import root_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.parse import Args

COMMAND = Command(
    name="tmr list",
    summary=COMMANDS["tmr list"][1],
    examples=(("mngr tmr list", "all runs of this project, those of map too, the latest last"),),
)


def run(cli: Cli, args: Args) -> int:
    """Show them."""
    from mngr.mapreduce.run_dir import RunDir, list_runs
    from mngr.tmr.status import status

    root = root_of(cli)
    found = [status(RunDir(root, name)) for name in list_runs(root)]
    rows = [
        {"run": one["run"], "state": one["state"], "counts": one["counts"], "budget": one["budget"]}
        for one in found
    ]
    lines = [
        (row["run"], row["state"], ", ".join(f"{n} {word}" for word, n in sorted(row["counts"].items())))
        for row in rows
    ]
    render.rows(
        cli, "runs", rows, render.table(("RUN", "STATE", "TASKS"), lines) if lines else "there are no runs"
    )
    return 0
