"""The command `mngr capture`."""

from __future__ import annotations

from mngr.base.errors import UsageError
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_spec import NAME_ARGUMENT, CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="capture",
    summary=COMMANDS["capture"][1],
    description=(
        "If the agent is stopped, mngr prints its last screen. The output is plain text. With --ansi, the output also "
        "contains the escape sequences for colours."
    ),
    arguments=(NAME_ARGUMENT,),
    options=(
        Option(flags=("--ansi",), help="Keep the colours of the screen; mngr prints them as escape sequences"),
        Option(
            flags=("--history",),
            metavar="N|all",
            help="Also print the last N lines that have scrolled off the screen, or all such lines (default: none)",
        ),
    ),
    examples=(
        ("mngr capture foo", "Print what foo's terminal shows now"),
        ("mngr capture foo --history all > log.txt", "Save the screen and all lines that have scrolled off it"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Print an agent's screen."""
    screen = cli.fleet.capture(args["name"], _parse_history(args["history"]))
    if not screen.is_live:
        cli.print_message(f"{screen.name} is stopped; this is the last screen before it stopped")
        if args["history"] is not None:
            cli.print_message("lines that had scrolled off the screen are not saved")
    text = terminal_text.clean_screen(screen.text, colours=args["ansi"])
    render.render_item(cli, {**screen.to_dict(), "text": text}, text)
    return 0


def _parse_history(text: str | None) -> int | None:
    """Return the number of lines above the screen to show; None means all."""
    if text == "all":
        return None
    if text is None:
        return 0
    if not text.isascii() or not text.isdigit():
        raise UsageError(
            f"--history needs a number of lines or all, not {text!r}", "for example: mngr capture NAME --history 100"
        )
    return int(text)
