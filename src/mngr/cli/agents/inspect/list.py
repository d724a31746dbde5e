"""The command `mngr list`."""

from __future__ import annotations

from mngr.base.errors import UsageError, suggest_closest
from mngr.base.model import STATES, AgentView
from mngr.cli.framework import render
from mngr.cli.framework.command_spec import CommandSpec, Option, place_below
from mngr.cli.framework.command_table import COMMANDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.inspect.list import Listing
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="list",
    summary=COMMANDS["list"][1],
    description=(
        "mngr list does not change anything and does not start any host. If a host does not answer, mngr prints a "
        "notice and lists the agents on the other hosts. The fields unpulled and dirty are empty unless you use --git "
        "or name them in an option, because mngr must run git in each work dir to find these values."
    ),
    options=(
        *place_below(
            "Choose agents",
            Option(
                flags=("--state",),
                metavar="STATE",
                is_repeatable=True,
                help="Show only agents in this state; separate several states with commas",
                complete="states",
            ),
            Option(
                flags=("--label",), metavar="K[=V]", is_repeatable=True, help="Show only agents that have this label"
            ),
            Option(flags=("--project",), metavar="NAME", help="Show only agents of this project"),
            Option(flags=("--host",), metavar="HOST", help="Show only agents on this host"),
            Option(flags=("--provider",), metavar="NAME", help="Show only agents on hosts of this provider"),
            Option(
                flags=("--filter",),
                metavar="EXPR",
                help="Show only agents that match the expression EXPR, for example 'state == RUNNING'; see: mngr help "
                "filters",
            ),
        ),
        *place_below(
            "Choose the output",
            Option(flags=("--fields",), metavar="A,B", help="Show the fields A and B as columns, in this order"),
            Option(
                flags=("--sort",), metavar="[-]FIELD", help="Sort the agents by FIELD; -FIELD sorts in descending order"
            ),
            Option(flags=("--ids",), help="Print only the agents' ids, one per line"),
            Option(flags=("--hosts",), help="List the hosts instead of the agents"),
            Option(
                flags=("--git",),
                help="Show how many of the agent's commits you have not pulled yet, and whether the agent has "
                "uncommitted changes",
            ),
            Option(flags=("--watch",), help="Continue to show changes until you press Ctrl-C"),
        ),
    ),
    examples=(
        (
            "mngr list --state WAITING --sort state_since",
            "Show waiting agents; the agent that has waited longest comes first",
        ),
        ("mngr list --filter 'labels.team == red and state != DONE'", "Show the agents that match an expression"),
        ("mngr list --format '{name} {branch}'", "Print each row in your own format"),
        ("mngr list --ids --state DONE | mngr destroy -", "Pass the ids of these agents to another command"),
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
    _show_agents(cli, args, _select_agents(cli, args, listing), listing)
    return 0


def _check_options(cli: Cli, args: Args) -> None:
    """Raise UsageError for options that exclude each other, unknown states and unknown fields."""
    if args["hosts"]:
        conflicting = sorted(args.given & {option.key for option in COMMAND.options} - {"hosts"})
        if conflicting:
            raise UsageError(f"--{conflicting[0]} and --hosts cannot be combined", "leave out one of them")
        return
    for state in _parse_states(args):
        if state not in STATES:
            raise UsageError(
                f"there is no state {state!r}",
                suggest_closest(state, list(STATES)) or f"states: {', '.join(STATES)}",
            )
    for name in (*_parse_fields(args), _parse_sort_field(args) or "name", *render.list_template_fields(cli.format)):
        first = name.partition(".")[0]
        if first not in AgentView._fields:
            hint = suggest_closest(first, list(AgentView._fields)) or "fields: " + ", ".join(AgentView._fields)
            raise UsageError(f"there is no field {first!r}", hint)


def _parse_states(args: Args) -> set[str]:
    return {state.strip().upper() for text in args["state"] for state in text.split(",")}


def _parse_fields(args: Args) -> list[str]:
    return [name.strip() for name in (args["fields"] or "").split(",") if name.strip()]


def _parse_sort_field(args: Args) -> str:
    """Return the field to sort by, or an empty string."""
    return (args["sort"] or "").removeprefix("-")


def _select_agents(cli: Cli, args: Args, listing: Listing) -> list[AgentView]:
    """Return the agents that the options select, sorted, with the fields that the options use."""
    states = _parse_states(args)
    agents = [
        agent
        for agent in listing.agents
        if (not states or agent.state in states) and _is_in_place(agent, args) and _has_labels(agent, args["label"])
    ]
    agents = _add_costly_fields(cli, args, agents)
    if args["filter"]:
        from mngr.agents.inspect.filter import compile_filter

        matches = compile_filter(args["filter"], AgentView._fields)
        agents = [agent for agent in agents if matches(agent.to_dict())]
    if args["sort"]:
        path = _parse_sort_field(args)
        agents.sort(
            key=lambda agent: _build_column_sort_key(render.get_field(agent.to_dict(), path)),
            reverse=args["sort"].startswith("-"),
        )
    return agents


def _is_in_place(agent: AgentView, args: Args) -> bool:
    """True when the agent is of the project, the host and the provider that the options name."""
    places = {"project": agent.project, "host": agent.host, "provider": agent.provider}
    return all(args[option] in (None, place) for option, place in places.items())


def _has_labels(agent: AgentView, labels: list[str]) -> bool:
    """True when the agent has all these labels, each written as K or K=V."""
    pairs = [f"{key}={value}" for key, value in agent.labels.items()]
    return all(text in pairs if "=" in text else text in agent.labels for text in labels)


def _add_costly_fields(cli: Cli, args: Args, agents: list[AgentView]) -> list[AgentView]:
    """Return the agents with the git state and the usage, where the options use them."""
    filter_text = args["filter"] or ""
    named_fields = {*_parse_fields(args), _parse_sort_field(args)}
    git_fields = {"dirty", "unpulled"}
    filtered_git_fields = [field for field in git_fields if field in filter_text or f"{{{field}}}" in cli.format]
    if args["git"] or named_fields & git_fields or filtered_git_fields:
        agents = cli.fleet.add_git_state(agents)
    first_parts = {name.partition(".")[0] for name in (*named_fields, *render.list_template_fields(cli.format))}
    if "usage" in first_parts or "usage." in filter_text:
        agents = cli.fleet.add_usage(agents)
    return agents


def _build_column_sort_key(value: object) -> tuple[int, float, str]:
    """Return a key that sorts missing values first, then numbers, then text."""
    if isinstance(value, int | float):
        return (1, float(value), "")
    return (0, 0.0, "") if value is None else (2, 0.0, str(value))


def _show_agents(cli: Cli, args: Args, agents: list[AgentView], listing: Listing) -> None:
    """Print the agents in the requested format, and messages about hosts that did not answer."""
    fields = ["id"] if args["ids"] else _parse_fields(args)
    if args["ids"] and cli.format == "human":
        cli.print_data("".join(f"{agent.id}\n" for agent in agents))
    elif fields and cli.format in ("json", "jsonl"):
        selected = [{name: render.get_field(agent.to_dict(), name) for name in fields} for agent in agents]
        render.render_rows(cli, "agents", selected, errors=listing.errors)
    else:
        default_fields = [*_DEFAULT_FIELDS, "unpulled", "dirty"] if args["git"] else list(_DEFAULT_FIELDS)
        human = _format_table(agents, fields or default_fields)
        render.render_rows(cli, "agents", [agent.to_dict() for agent in agents], human, errors=listing.errors)
    if cli.format == "human" and not agents and not args["ids"]:
        cli.print_message(
            "no agent matches" if listing.agents else "there are no agents; create one: mngr create NAME claude"
        )
    for error in listing.errors:
        cli.print_message(f"{error['host']} ({error['provider']}) did not answer: {error['error']}")
    for note in listing.notes:
        cli.print_message(note)


def _format_table(agents: list[AgentView], fields: list[str]) -> str:
    """Return the agents as a table for people."""
    if not agents:
        return ""
    import time

    now = time.time()
    rows = [[_format_cell(agent, name, now) for name in fields] for agent in agents]
    headings = [{"activity_at": "ACTIVE"}.get(name, name.upper()) for name in fields]
    return render.format_table(headings, rows, state_column=fields.index("state") if "state" in fields else None)


def _format_cell(agent: AgentView, name: str, now: float) -> str:
    """Return one field of an agent as text; times become ages."""
    value = render.get_field(agent.to_dict(), name)
    if value is None:
        return "-"
    if name == "state" and agent.state_reason:
        return f"{value} ({agent.state_reason})"
    if name.endswith(("_at", "_since", "_until")):
        from mngr.base.time_format import format_age, parse_timestamp

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
    headings = ["HOST", "PROVIDER", "STATE", "AGENTS", "ENDS"]
    rows = [
        [host.host, host.provider, host.state, "-" if host.agents is None else str(host.agents), host.ends_at or "-"]
        for host in hosts
    ]
    if not any(host.ends_at for host in hosts):
        headings, rows = headings[:-1], [row[:-1] for row in rows]
    render.render_rows(cli, "hosts", [host.to_dict() for host in hosts], render.format_table(headings, rows))
    for host in hosts:
        if cli.format == "human" and host.state == "UNKNOWN":
            cli.print_message(f"{host.host} ({host.provider}) did not answer: {host.error}")
    return 0


def _watch_agents(cli: Cli, args: Args) -> int:
    """Check the agents twice a second. Redraw a terminal; elsewhere, print only changes."""
    import sys
    import time

    is_screen = cli.format == "human" and sys.stdout.isatty()
    shown: list[AgentView] | None = None
    while True:
        listing = cli.fleet.list()
        agents = _select_agents(cli, args, listing)
        if is_screen:
            sys.stdout.write("\x1b[H\x1b[2J")
            _show_agents(cli, args, agents, listing)
        elif agents != shown:
            rows = agents if cli.format == "human" else _list_changes(shown or [], agents)
            _show_agents(cli, args, rows, listing)
        shown = agents
        sys.stdout.flush()
        time.sleep(0.5)


def _list_changes(before: list[AgentView], agents: list[AgentView]) -> list[AgentView]:
    """Return the agents that are new or changed, and with the state GONE those that are no longer there."""
    before_by_id = {agent.id: agent for agent in before}
    current_ids = {agent.id for agent in agents}
    changed = [agent for agent in agents if before_by_id.get(agent.id) != agent]
    gone = [agent.replace(state="GONE") for agent in before if agent.id not in current_ids]
    return changed + gone
