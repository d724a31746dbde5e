"""The command `mngr tmr report`."""

from __future__ import annotations

from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_spec import CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.runs.tmr.shared import RUN_ARGUMENT, get_run
from mngr.cli.runs.web import open_page

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="tmr report",
    summary=COMMANDS["tmr report"][1],
    description=(
        "The pages open from disk and load nothing from the network. They show counts, root causes, a timeline of all agents "
        "and the cost; for each task they show the claim beside the receipt, the diff by commit, terminals and the "
        "conversation. tmr run writes the pages during the run, and an open page reloads itself until the run has ended."
    ),
    arguments=(RUN_ARGUMENT,),
    options=(
        Option(
            flags=("--export",), metavar="FILE", help="Also write the report to FILE as a zip archive", complete="files"
        ),
        Option(flags=("--open",), help="Open the first page in a browser"),
    ),
    examples=(
        ("mngr tmr report --open", "Open the report of the latest run"),
        ("mngr tmr report nightly --export nightly.zip", "Write one file that you can send to a colleague"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Write the report, and print its path."""
    from mngr.web.report.report import write_report, zip_report

    run_dir = get_run(cli, args)
    index_path = write_report(cli.context.local_host, run_dir)
    fields, human = {"run": run_dir.name, "path": index_path}, index_path
    if args["export"] is not None:
        target = cli.context.resolve_path(args["export"])
        zip_report(index_path, target, run_dir.name)
        fields, human = {**fields, "export": target}, target
    render.render_item(cli, fields, terminal_text.strip_controls(human))
    if args["open"]:
        open_page(f"file://{index_path}")
    return 0
