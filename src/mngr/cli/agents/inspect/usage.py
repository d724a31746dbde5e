"""`mngr usage`."""

from __future__ import annotations

from mngr.cli.framework import render
from mngr.cli.framework.run import names_of
from mngr.cli.framework.spec import NAMES, Command, Option
from mngr.cli.framework.table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.inspect.usage import Used
    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.parse import Args

COMMAND = Command(
    name="usage",
    summary=COMMANDS["usage"][1],
    description=(
        "Counted from the agents' own conversations. A program that writes down what it costs is believed; for the others\n"
        "there is a table of prices, and what stands in neither is unknown. Your own: mngr config set usage.prices FILE."
    ),
    arguments=(NAMES.replace(required=False, help="agents; all when none is named"),),
    options=(
        Option(
            flags=("--by",),
            metavar="WHAT",
            default="agent",
            help="a line for each: agent, day, model, kind, project or label.KEY",
        ),
        Option(flags=("--destroyed",), help="count those in the graveyard too"),
    ),
    examples=(
        ("mngr usage", "of every agent"),
        ("mngr usage --by day --destroyed", "what each day cost"),
        ("mngr usage --by label.run --format json", "for a script, by the label `run`"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Print the sums."""
    found = cli.fleet.usage(names_of(args), by=args["by"], destroyed=args["destroyed"])
    items = [used.to_dict() for used in found]
    render.rows(cli, "usage", items, _table(found, args["by"]))
    if cli.format == "human" and not items:
        cli.say("no agent has used a model")
    return 0


def _table(found: list[Used], by: str) -> str:
    if not found:
        return ""
    heads = [by.upper(), "INPUT", "CACHED", "OUTPUT", "COST"]
    rows = [
        [
            used.group,
            f"{used.input_tokens + used.cache_write_tokens:,}",
            f"{used.cache_read_tokens:,}",
            f"{used.output_tokens:,}",
            "unknown" if used.cost_usd is None else f"${used.cost_usd:.4f}",
        ]
        for used in found
    ]
    return render.table(heads, rows)
