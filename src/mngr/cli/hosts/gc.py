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
        "Finishes creates and destroys whose process is gone, removes names and sessions without an agent, agents that\n"
        "have been in the trash for longer than trash.keep, and results of set-ups nobody used for 30 days. What another\n"
        "command is at work on is not touched, an agent that has run goes to the trash first, and a directory of unknown\n"
        "origin is only named."
    ),
    options=(Option(flags=("--dry-run",), help="say what would be done, and do nothing"),),
    examples=(("mngr gc --dry-run", "what there is to clean up"), ("mngr gc", "clean it up")),
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
