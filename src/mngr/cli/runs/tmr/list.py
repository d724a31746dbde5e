"""The command `mngr tmr list`."""

from __future__ import annotations

from mngr.cli.framework import render
from mngr.cli.framework.command_spec import CommandSpec
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.runs.run_options import get_project_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="tmr list",
    summary=COMMANDS["tmr list"][1],
    examples=(
        ("mngr tmr list", "List all runs of this project, including the runs of mngr map; the latest one comes last"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Show the runs of the project."""
    from mngr.base.json_structs import encode
    from mngr.mapreduce.run_dir import RunDir, list_runs
    from mngr.tmr.status import build_status

    root = get_project_root(cli)
    statuses = [build_status(RunDir(root, name)) for name in list_runs(root)]
    rows = [
        {"run": status.run, "state": status.state, "counts": status.counts, "budget": encode(status.budget)}
        for status in statuses
    ]
    lines = [
        (status.run, status.state, ", ".join(f"{number} {word}" for word, number in sorted(status.counts.items())))
        for status in statuses
    ]
    render.render_rows(
        cli,
        "runs",
        rows,
        render.format_table(("RUN", "STATE", "TASKS"), lines) if lines else "no runs yet",
    )
    return 0
