"""The command `mngr events`."""

from __future__ import annotations

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
        "Without NAME the events of all agents, in the order they happened. Times are UTC. A row has at, agent (its id),\n"
        "name (its name), type, source and data: --format '{name} {type}'."
    ),
    arguments=(NAMES_ARGUMENT.replace(required=False),),
    options=(
        Option(flags=("-f", "--follow"), help="go on as things happen (with --format human, jsonl or a template)"),
        Option(
            flags=("--since",),
            metavar="TIME",
            help="only what happened since: 10m, 2h, 2026-11-15, 2026-11-15T21:30",
        ),
        Option(
            flags=("--type",),
            metavar="T",
            is_repeatable=True,
            help="only this type of event: created, message, waiting, exited, …",
        ),
    ),
    examples=(
        ("mngr events foo", "what happened to foo"),
        ("mngr events --follow --type waiting --format '{name}'", "print who waits for you, as it happens"),
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
    return terminal_text.fit_line(line.rstrip(), terminal_text.get_width()) + "\n"


def _format_value(value: object) -> str:
    return value if isinstance(value, str) and value and " " not in value else render.format_json(value)
