"""The command `mngr list`."""

from __future__ import annotations

from mngr.base.errors import UsageError, suggest_closest
from mngr.base.model import STATES, AgentView
from mngr.cli.framework import render
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.spec import CommandSpec, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mngr.agents.inspect.list import Listing
    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="list",
    summary=COMMANDS["list"][1],
    description=(
        "Never starts a host and changes nothing. A host that does not answer is shown as such and does not keep\n"
        "the others from being shown. `unpulled` and `dirty` are filled in only when asked for: they cost a git call each."
    ),
    options=(
        Option(
            flags=("--state",),
            metavar="STATE",
            is_repeatable=True,
            help="only these states",
            complete="states",
        ),
        Option(flags=("--label",), metavar="K[=V]", is_repeatable=True, help="only agents with this label"),
        Option(flags=("--project",), metavar="NAME", help="only agents of this project"),
        Option(flags=("--host",), metavar="HOST", help="only agents on this host"),
        Option(flags=("--provider",), metavar="NAME", help="only agents of this provider"),
        Option(flags=("--filter",), metavar="EXPR", help="FIELD OP VALUE with == != < <= > >= ~, and or not ()"),
        Option(flags=("--fields",), metavar="A,B", help="these fields, in this order"),
        Option(flags=("--sort",), metavar="[-]FIELD", help="order by a field; - for descending"),
        Option(flags=("--ids",), help="ids only, one a line"),
        Option(flags=("--hosts",), help="the hosts instead of the agents"),
        Option(flags=("--git",), help="also how many commits are not pulled and whether work is uncommitted"),
        Option(flags=("--watch",), help="stay and show every change until interrupted"),
    ),
    examples=(
        ("mngr list --state WAITING --sort state_since", "who has waited longest"),
        ("mngr list --filter 'labels.team == red and state != DONE'", "a question of your own"),
        ("mngr list --format '{name} {branch}'", "a line of your own making"),
        ("mngr list --ids --state DONE | mngr destroy -", "feed another command"),
    ),
)

_DEFAULT_FIELDS = ("name", "state", "kind", "host", "project", "branch", "activity_at")


def run(cli: Cli, args: Args) -> int:
    """Show the agents once, or again on every change."""
    _check_options(cli, args)
    if args["hosts"]:
        return _list_hosts(cli)
    if args["watch"]:
        return _watch_agents(cli, args)
    listing = cli.fleet.list()
    _show_items(cli, args, _select_items(cli, args, listing), listing)
    return 0


def _check_options(cli: Cli, args: Args) -> None:
    """Raise UsageError for options that exclude each other, unknown states and unknown fields."""
    if args["hosts"]:
        conflicting = sorted(args.given & {option.key for option in COMMAND.options} - {"hosts"})
        if conflicting:
            raise UsageError(f"--{conflicting[0]} has no meaning with --hosts", "leave one of them out")
        return
    for state in _parse_states(args):
        if state not in STATES:
            raise UsageError(
                f"there is no state {state!r}",
                suggest_closest(state, list(STATES)) or f"states: {', '.join(STATES)}",
            )
    for name in [
        *_parse_fields(args),
        (args["sort"] or "name").removeprefix("-"),
        *render.list_template_fields(cli.format),
    ]:
        first = name.partition(".")[0]
        if first not in AgentView._fields:
            hint = suggest_closest(first, list(AgentView._fields)) or "fields: " + ", ".join(AgentView._fields)
            raise UsageError(f"there is no field {first!r}", hint)


def _parse_states(args: Args) -> set[str]:
    return {state.strip().upper() for text in args["state"] for state in text.split(",")}


def _parse_fields(args: Args) -> list[str]:
    return [name.strip() for name in (args["fields"] or "").split(",") if name.strip()]


def _select_items(cli: Cli, args: Args, listing: Listing) -> list[dict[str, Any]]:
    """Return the agents that the options select, as dictionaries, sorted."""
    agents = listing.agents
    states = _parse_states(args)
    agents = [
        agent for agent in agents if (not states or agent.state in states) and args["project"] in (None, agent.project)
    ]
    agents = [
        agent for agent in agents if args["host"] in (None, agent.host) and args["provider"] in (None, agent.provider)
    ]
    for text in args["label"]:
        key, equals, value = text.partition("=")
        agents = [agent for agent in agents if key in agent.labels and (not equals or agent.labels[key] == value)]
    used_fields = {*_parse_fields(args), (args["sort"] or "").removeprefix("-")}
    uses_git_state = any(
        word in (args["filter"] or "") or f"{{{word}}}" in cli.format for word in ("dirty", "unpulled")
    )
    if args["git"] or used_fields & {"dirty", "unpulled"} or uses_git_state:
        agents = cli.fleet.add_git_state(agents)
    if "usage" in {
        name.partition(".")[0] for name in (*used_fields, *render.list_template_fields(cli.format))
    } or "usage." in (args["filter"] or ""):
        agents = cli.fleet.add_usage(agents)
    items = [agent.to_dict() for agent in agents]
    if args["filter"]:
        from mngr.agents.inspect.filter import compile_filter

        matches = compile_filter(args["filter"], AgentView._fields)
        items = [item for item in items if matches(item)]
    if args["sort"]:
        path = args["sort"].removeprefix("-")
        items.sort(
            key=lambda item: _build_sort_key(render.get_field(item, path)),
            reverse=args["sort"].startswith("-"),
        )
    return items


def _build_sort_key(value: Any) -> tuple[int, float, str]:
    """Return a key that sorts missing values first, then numbers, then text."""
    if isinstance(value, int | float):
        return (1, float(value), "")
    return (0, 0.0, "") if value is None else (2, 0.0, str(value))


def _show_items(cli: Cli, args: Args, items: list[dict[str, Any]], listing: Listing) -> None:
    """Print the agents in the requested format, and messages about hosts that did not answer."""
    fields = ["id"] if args["ids"] else _parse_fields(args)
    if args["ids"] and cli.format == "human":
        cli.print_data("".join(f"{item['id']}\n" for item in items))
    elif fields and cli.format in ("json", "jsonl"):
        selected = [{name: render.get_field(item, name) for name in fields} for item in items]
        render.render_rows(cli, "agents", selected, errors=listing.errors)
    else:
        human = _format_table(
            items,
            fields or ([*_DEFAULT_FIELDS, "unpulled", "dirty"] if args["git"] else list(_DEFAULT_FIELDS)),
        )
        render.render_rows(cli, "agents", items, human, errors=listing.errors)
    if cli.format == "human" and not items and not args["ids"]:
        cli.print_message("no agent matches" if listing.agents else "no agents; make one: mngr create NAME -- COMMAND")
    for error in listing.errors:
        cli.print_message(f"{error['host']} ({error['provider']}) did not answer: {error['error']}")
    for note in listing.notes:
        cli.print_message(note)


def _format_table(items: list[dict[str, Any]], fields: list[str]) -> str:
    """Return the agents as a table for people."""
    if not items:
        return ""
    import time

    now = time.time()
    rows = [[_format_cell(item, name, now) for name in fields] for item in items]
    headings = [{"activity_at": "ACTIVE"}.get(name, name.upper()) for name in fields]
    return render.format_table(headings, rows, state_column=fields.index("state") if "state" in fields else None)


def _format_cell(item: dict[str, Any], name: str, now: float) -> str:
    """Return one field of an agent as text; times become ages."""
    value = render.get_field(item, name)
    if value is None:
        return "-"
    if name == "state" and item["state_reason"]:
        return f"{value} ({item['state_reason']})"
    if name.endswith(("_at", "_since", "_until")):
        from mngr.base.clock import format_age, parse_timestamp

        try:
            return format_age(now - parse_timestamp(str(value)))
        except ValueError:  # The agent wrote this text, so it may be no time.
            return str(value)
    if isinstance(value, dict):
        return ",".join(f"{label}={text}" for label, text in value.items()) or "-"
    return str(value).replace("\n", "?")


def _list_hosts(cli: Cli) -> int:
    """Print the hosts."""
    hosts = cli.fleet.list_hosts()
    keys = ["host", "provider", "state", "agents"]
    if any(host["ends_at"] for host in hosts):
        keys.append("ends_at")
    human = render.format_table(
        tuple(key.upper().replace("_AT", "") for key in keys),
        [[str("-" if host[key] is None else host[key]) for key in keys] for host in hosts],
    )
    render.render_rows(cli, "hosts", hosts, human)
    for host in hosts:
        if cli.format == "human" and host["state"] == "UNKNOWN":
            cli.print_message(f"{host['host']} ({host['provider']}) did not answer: {host['error']}")
    return 0


def _watch_agents(cli: Cli, args: Args) -> int:
    """Check the agents twice a second. Redraw a terminal; elsewhere, print only changes."""
    import sys
    import time

    is_screen = cli.format == "human" and sys.stdout.isatty()
    last_items: list[dict[str, Any]] | None = None
    items_by_id: dict[str, dict[str, Any]] = {}
    while True:
        listing = cli.fleet.list()
        items = _select_items(cli, args, listing)
        if is_screen:
            sys.stdout.write("\x1b[H\x1b[2J")
            _show_items(cli, args, items, listing)
        elif items != last_items:
            changed = [item for item in items if items_by_id.get(item["id"]) != item]
            gone = [
                {**item, "state": "GONE"}
                for key, item in items_by_id.items()
                if key not in {current["id"] for current in items}
            ]
            _show_items(cli, args, items if cli.format == "human" else [*changed, *gone], listing)
        last_items, items_by_id = items, {item["id"]: item for item in items}
        sys.stdout.flush()
        time.sleep(0.5)
