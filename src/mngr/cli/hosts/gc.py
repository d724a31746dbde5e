"""The command `mngr gc`."""

from __future__ import annotations

from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.cli_invocation import compute_exit_code
from mngr.cli.framework.command_spec import CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.base.model import Outcome
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="gc",
    summary=COMMANDS["gc"][1],
    description=(
        "mngr completes or undoes creations and destructions whose process has ended. It removes names and sessions without "
        "an agent, agents that were in the trash for longer than the setting trash.keep, and set-up results that were not "
        "used for 30 days. It does not touch anything that another command is working on. "
        "An agent that has run goes to the trash first. mngr names directories of unknown origin and keeps them."
    ),
    options=(Option(flags=("--dry-run",), help="Print what would be cleaned up, and change nothing"),),
    examples=(("mngr gc --dry-run", "Show what can be cleaned up"), ("mngr gc", "Clean up")),
)


def run(cli: Cli, args: Args) -> int:
    """Clean up, and print everything that was cleaned."""
    outcomes = cli.fleet.gc(dry_run=args["dry_run"])
    if cli.format != "human":
        render.render_rows(cli, "results", [outcome.to_dict() for outcome in outcomes])
        return compute_exit_code(outcomes)
    if not outcomes:
        cli.print_message("nothing to clean up")
    for outcome in outcomes:
        if outcome.ok and not outcome.notes:
            cli.print_data(terminal_text.strip_controls(_format_outcome(outcome)))
        for note in outcome.notes:
            cli.print_message(note)
        if not outcome.ok:
            cli.print_message(f"Error: {outcome.extra['what']} {outcome.name}: {outcome.error}")
    return compute_exit_code(outcomes)


def _format_outcome(outcome: Outcome) -> str:
    id_suffix = f" ({outcome.id})" if outcome.id and outcome.id != outcome.name else ""
    return f"{outcome.extra['action']}: {outcome.extra['what']} {outcome.name}{id_suffix}"
