"""The command `mngr usage`."""

from __future__ import annotations

from mngr.cli.framework import render
from mngr.cli.framework.command_spec import NAMES_ARGUMENT, CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.run import read_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.inspect.usage import MissingHost, UsageRow
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="usage",
    summary=COMMANDS["usage"][1],
    description=(
        "mngr counts the tokens in the agents' conversations. If a coding agent reports its cost, mngr uses this "
        "cost. If not, mngr computes the cost from a table of prices. If the table does not contain the model, mngr "
        "reports the cost as unknown. To use your own table of prices, run: mngr config set usage.prices FILE. If a "
        "host does not answer, mngr does not count its agents and prints a notice."
    ),
    arguments=(NAMES_ARGUMENT.replace(required=False, help="An agent's name or id (default: all agents)"),),
    options=(
        Option(
            flags=("--by",),
            metavar="WHAT",
            default="agent",
            help="Print one row for each WHAT, which is agent, day, model, kind, project or label.KEY",
        ),
        Option(flags=("--destroyed",), help="Also count destroyed agents, which are in the trash"),
    ),
    examples=(
        ("mngr usage", "Show the usage of every agent"),
        ("mngr usage --by day --destroyed", "Show the cost of each day, including destroyed agents"),
        ("mngr usage --by label.run --format json", "Print the total for each value of the label run, as JSON"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Print the tokens and the cost of agents."""
    missing_hosts: list[MissingHost] = []
    usage_rows = cli.fleet.usage(
        read_names(args), by=args["by"], destroyed=args["destroyed"], on_missing_host=missing_hosts.append
    )
    items = [usage.to_dict() for usage in usage_rows]
    errors = [missing.to_dict() for missing in missing_hosts]
    render.render_rows(cli, "usage", items, _format_table(usage_rows, args["by"]), errors=errors)
    if cli.format == "human" and not items:
        cli.print_message("no agent has used a model")
    for missing in missing_hosts:
        cli.print_message(f"not counted: {missing.host} ({missing.provider}) did not answer: {missing.error}")
    return 0


def _format_table(usage_rows: list[UsageRow], by: str) -> str:
    if not usage_rows:
        return ""
    headings = [by.upper(), "INPUT", "CACHED", "OUTPUT", "COST"]
    rows = [
        [
            usage.group,
            f"{usage.input_tokens + usage.cache_write_tokens:,}",
            f"{usage.cache_read_tokens:,}",
            f"{usage.output_tokens:,}",
            "unknown" if usage.cost_usd is None else f"${usage.cost_usd:.4f}",
        ]
        for usage in usage_rows
    ]
    return render.format_table(headings, rows)
