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
        "If a mngr create or mngr destroy was interrupted, mngr completes or undoes it. mngr deletes names and tmux "
        "sessions that no longer belong to an agent, agents that were in the trash for longer than the setting "
        "trash.keep, and cached results of set-up commands that nobody used for 30 days. It skips everything that "
        "another mngr command is using. If a half-created agent has already run, mngr moves this agent to the trash. "
        "mngr does not delete directories that it does not recognize, but prints their names."
    ),
    options=(Option(flags=("--dry-run",), help="Print what mngr would clean up, without changing anything"),),
    examples=(("mngr gc --dry-run", "Print what mngr would clean up"), ("mngr gc", "Clean up")),
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
