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
        "A browser can open the pages from the disk, without a web server or the network. The pages show the number "
        "of tasks in each state, the root causes, a timeline of all agents and the cost. For each task, they compare "
        "the agent's claim with mngr's receipt, and show the diff of each commit, the terminal and the conversation. "
        "The page with the trends compares all test runs of the project: the pass rate, flaky tests, the cost and the time. "
        "mngr tmr run updates the report during the run, and an open page reloads itself until the run has ended."
    ),
    arguments=(RUN_ARGUMENT,),
    options=(
        Option(
            flags=("--export",),
            metavar="FILE",
            help="Also write the whole report to the zip file FILE",
            complete="files",
        ),
        Option(flags=("--open",), help="Open the report in a browser"),
    ),
    examples=(
        ("mngr tmr report --open", "Open the report of the latest run"),
        ("mngr tmr report nightly --export nightly.zip", "Write the report of the run nightly to one zip file"),
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
