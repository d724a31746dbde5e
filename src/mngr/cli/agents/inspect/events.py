"""The command `mngr events`."""

from __future__ import annotations

import sys

from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_spec import NAMES_ARGUMENT, CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.run import read_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.inspect.events import AgentEvent
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="events",
    summary=COMMANDS["events"][1],
    description=(
        "Without NAME, mngr prints the events of all agents in chronological order. Times are in UTC. Each event has "
        "the fields at (the time), agent (the agent's id), name, type, source and data. You can use these fields in a "
        "template such as --format '{name} {type}'."
    ),
    arguments=(NAMES_ARGUMENT.replace(required=False),),
    options=(
        Option(
            flags=("-f", "--follow"),
            help="Continue to print new events until you press Ctrl-C (not possible with --format json)",
        ),
        Option(
            flags=("--since",),
            metavar="TIME",
            help="Print only events after TIME, which is a duration or a date: 10m, 2h, 2026-11-15 or "
            "2026-11-15T21:30 (default: all events)",
        ),
        Option(
            flags=("--type",),
            metavar="TYPE",
            is_repeatable=True,
            help="Print only events of the type TYPE, for example created, message, waiting or exited",
        ),
    ),
    examples=(
        ("mngr events foo", "Print foo's events"),
        (
            "mngr events --follow --type waiting --format '{name}'",
            "Print each agent's name when it starts to wait for you",
        ),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Print the events of agents."""
    found = cli.fleet.events(read_names(args), since=args["since"], types=tuple(args["type"]), follow=args["follow"])
    if args["follow"]:
        render.render_stream(cli, found, _format_event)
    else:
        events = list(found)
        rows = [event.to_dict() for event in events]
        render.render_rows(cli, "events", rows, "".join(_format_event(event) for event in events))
    return 0


def _format_event(event: AgentEvent) -> str:
    time = event.at[:23].replace("T", " ")
    details = " ".join(f"{key}={_format_value(value)}" for key, value in event.data.items() if value is not None)
    line = f"{time}  {event.name:12}  {event.type:12}  {event.source:8}  {details}"
    # Events in a pipe are data, which COLUMNS does not cut.
    width = terminal_text.get_width() if sys.stdout.isatty() else len(line)
    return terminal_text.fit_line(line.rstrip(), width) + "\n"


def _format_value(value: object) -> str:
    return value if isinstance(value, str) and value and " " not in value else render.format_json(value)
