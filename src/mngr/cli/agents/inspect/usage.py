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
        "mngr counts the tokens in the agents' own conversations. It uses the cost that a coding agent reports, "
        "or else a table of prices; a cost that is in neither is unknown. To use your own table of prices: "
        "mngr config set usage.prices FILE. A host that does not answer is not counted, and mngr says so."
    ),
    arguments=(NAMES_ARGUMENT.replace(required=False, help="Agents' names or ids (default: all agents)"),),
    options=(
        Option(
            flags=("--by",),
            metavar="WHAT",
            default="agent",
            help="Print one line per agent, day, model, kind, project or label.KEY",
        ),
        Option(flags=("--destroyed",), help="Also count agents in the trash"),
    ),
    examples=(
        ("mngr usage", "Show the usage of every agent"),
        ("mngr usage --by day --destroyed", "Show what each day cost"),
        ("mngr usage --by label.run --format json", "Add up by the label run, for a script"),
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
