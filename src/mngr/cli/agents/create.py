"""The command `mngr create`."""

from __future__ import annotations

import sys

from mngr.base.config import as_list
from mngr.base.errors import MngrError, PartialFailure, UsageError, suggest_closest
from mngr.base.model import TRANSFER_MODES, AgentView
from mngr.cli.agents.connect import CONNECT_COMMAND, check_can_connect
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_line import raise_single_failure
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.parse import Args, parse_words
from mngr.cli.framework.spec import ACTIVITY_OPTION, COMMON_OPTIONS, Argument, CommandSpec, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.create.request import CreateRequest
    from mngr.base.model import Outcome
    from mngr.cli.framework.command_line import Cli

COMMAND = CommandSpec(
    name="create",
    summary=COMMANDS["create"][1],
    description=(
        "Without KIND, a command after -- is run as it is. The agent works in a git worktree of its own on the\n"
        "branch mngr/NAME, in a session of mngr's own tmux server. It sees only the variables it is given."
    ),
    arguments=(
        Argument(
            name="ADDRESS",
            help="NAME, NAME@HOST or NAME@.PROVIDER; a name is made up when missing",
            required=False,
        ),
        Argument(name="KIND", help="what kind of agent: command, player, …", required=False, complete="kinds"),
    ),
    options=(
        Option(
            flags=("-m", "--message"),
            metavar="TEXT",
            help="the first message; create returns when it has arrived",
        ),
        Option(flags=("--message-file",), metavar="FILE", help="the first message from a file", complete="files"),
        Option(flags=("--connect",), help="attach when it runs (default: on a terminal)"),
        CONNECT_COMMAND,
        Option(
            flags=("--from",),
            metavar="PATH|AGENT|URL",
            help="what to work on (default: this directory)",
            complete="files",
        ),
        Option(
            flags=("--branch",),
            metavar="[BASE][:NEW]",
            help="where to start and what to call the new branch (default: :mngr/*)",
        ),
        Option(flags=("--transfer",), metavar="MODE", help="how it gets its copy", choices=TRANSFER_MODES),
        Option(
            flags=("--dirty",),
            metavar="HOW",
            help="what to do about uncommitted changes",
            choices=("fail", "ignore", "include"),
        ),
        Option(flags=("--env",), metavar="K=V", is_repeatable=True, help="a variable for the agent"),
        Option(flags=("--pass-env",), metavar="K", is_repeatable=True, help="a variable of yours to pass on"),
        Option(
            flags=("--env-file",),
            metavar="FILE",
            is_repeatable=True,
            help="variables from a file of K=V lines",
            complete="files",
        ),
        Option(flags=("--label",), metavar="K=V", is_repeatable=True, help="a label"),
        Option(
            flags=("-t", "--template"),
            metavar="NAME",
            is_repeatable=True,
            help="options from [templates.NAME]; what can be repeated adds up",
            complete="templates",
        ),
        Option(
            flags=("-w", "--window"),
            metavar="NAME=CMD",
            is_repeatable=True,
            help="one more window beside the agent",
        ),
        Option(
            flags=("--idle-timeout",),
            metavar="TIME",
            kind="length",
            help="stop it after so long without activity",
        ),
        ACTIVITY_OPTION,
        Option(
            flags=("--resume",),
            metavar="ID",
            help="go on with a conversation of the program's that was begun outside; that one stays as it is",
        ),
        Option(
            flags=("--yolo",),
            help="let a coding agent do everything without asking; where nothing but its own host is at stake",
        ),
        Option(
            flags=("--sandbox",),
            help="behind walls: it sees the system's programs, its own copy, and no network unless --network says so",
        ),
        Option(
            flags=("--network",),
            metavar="on|off|allow=HOST[:PORT],…",
            help="what it may connect to (default: on; off with --sandbox)",
        ),
        Option(
            flags=("-b", "--build-arg"),
            metavar="KEY=VALUE",
            is_repeatable=True,
            help="what a new host shall be like: a setting of its provider; += adds to a list",
        ),
        Option(flags=("--new-host",), help="fail when the host is there already, instead of using it"),
        Option(flags=("--count",), metavar="N", kind="int", default=1, help="make NAME-1 to NAME-N"),
        Option(
            flags=("--agents-per-host",),
            metavar="N",
            kind="int",
            help="with --count and NAME@.PROVIDER: so many on each new host (default: all on one)",
        ),
        Option(
            flags=("--snapshot",),
            metavar="NAME",
            help="from a snapshot, as snapshot restore makes one",
            complete="snapshots",
        ),
        Option(
            flags=("--reuse",),
            help="take the agent that has this name, if there is one, and start it if it is stopped",
        ),
    ),
    trailing_help="ARGS",
    examples=(
        ("mngr create foo -- make test", "run a command in its own worktree, on branch mngr/foo"),
        ("mngr create foo --dirty include -- ./try.sh", "take uncommitted changes along"),
        ("mngr create w --count 3 --label team=red -- sleep 1000", "three at once: w-1, w-2, w-3"),
        (
            "mngr create foo --env-file .env -w logs='tail -f log' -- ./serve",
            "variables from a file, and a second window",
        ),
        (
            "mngr create foo --sandbox --network allow=api.example.com:443 -- ./try.sh",
            "what you do not trust, with one place it may connect to",
        ),
    ),
)


_REPEATABLE_KEYS = {option.key for option in COMMAND.options if option.is_repeatable}


def run(cli: Cli, args: Args) -> int:
    """Create the agents, send the first message, and attach if asked to."""
    from mngr.cli.framework.run import is_interactive

    if args["template"]:
        args = _apply_templates(cli, args)
    should_connect = args["connect"] if "connect" in args.chosen else _is_connect_default(cli, args)
    if should_connect:
        check_can_connect(cli, args["count"], args["connect_command"])
    if is_interactive() and cli.format == "human":
        cli.context.ask = cli.ask_yes_no
    message = _read_first_message(args)
    results: list[AgentView | Exception]
    message_outcomes: list[Outcome] = []
    if args["snapshot"] is not None:
        results = [_create_from_snapshot(cli, args)]
    else:
        request = _build_request(cli, args, on_terminal=is_interactive())
        request = request.replace(message=message, message_timeout=_start_timeout(request.count))
        results = cli.fleet.create_many(request, message_outcomes)
    agents = [agent for agent in results if not isinstance(agent, Exception)]
    errors = [error for error in results if isinstance(error, Exception)]
    if errors and not agents:
        raise errors[0]
    _show_agents(cli, agents)
    if message is not None:
        messaged_names = {outcome.name for outcome in message_outcomes}
        message_outcomes += _send_first_message(
            cli, [agent for agent in agents if agent.name not in messaged_names], message
        )
        _check_delivered(cli, message_outcomes)
    if errors:
        name_prefix = f"{args['address'].partition('@')[0]}-" if args["address"] else "number "
        failed = [
            f"{name_prefix}{number}: {result}"
            for number, result in enumerate(results, 1)
            if isinstance(result, Exception)
        ]
        hint = getattr(errors[0], "hint", None) or "see: mngr list"
        raise PartialFailure(
            _format_failures(cli, f"{len(failed)} of {len(results)} agents could not be made", failed), hint
        )
    if should_connect:
        from mngr.cli.agents.connect import connect_terminal

        return connect_terminal(cli, agents[0].id, args["connect_command"])
    return 0


def _create_from_snapshot(cli: Cli, args: Args) -> AgentView:
    """Create an agent from a snapshot; raise UsageError for options that the snapshot decides already."""
    allowed = {"snapshot", "address", "message", "message_file", "connect", "connect_command", "template"}
    common = {option.key for option in COMMON_OPTIONS}
    conflicting = sorted(args.given - allowed - common) or (["--"] if args.rest else [])
    if conflicting:
        raise UsageError(f"{conflicting[0]} has no meaning with --snapshot", "the snapshot says what the agent is")
    return cli.fleet.restore_snapshot(args["snapshot"], args["address"])


def _is_connect_default(cli: Cli, args: Args) -> bool:
    """True when `create` attaches although --connect was not given."""
    from mngr.cli.framework.run import is_interactive

    return cli.format == "human" and (is_interactive() or "connect_command" in args.given)


def _start_timeout(count: int) -> float:
    """Return the seconds to wait for a start; several programs that start together take longer."""
    return 30.0 + 3.0 * (count - 1)


def _send_first_message(cli: Cli, agents: list[AgentView], message: str) -> list[Outcome]:
    """Send the first message to the agents and return the outcomes."""
    names = [agent.name for agent in agents]
    return cli.fleet.message(names, message, timeout=_start_timeout(len(agents))) if names else []


def _check_delivered(cli: Cli, outcomes: list[Outcome]) -> None:
    """Raise an error if the first message did not reach every agent; the agents stay."""
    raise_single_failure(outcomes)
    missed = [outcome for outcome in outcomes if not outcome.ok]
    if missed:
        failed = [f"{outcome.name}: {outcome.error}" for outcome in missed]
        message = _format_failures(cli, f"the message did not reach {len(missed)} of {len(outcomes)} agents", failed)
        raise PartialFailure(message, missed[0].hint or "see: mngr list")


def _format_failures(cli: Cli, summary: str, failed: list[str]) -> str:
    """Return one error message for several failures; for people, print each failure on its own line first."""
    if cli.format != "human":
        return f"{summary}: {'; '.join(failed)}"
    for line in failed:
        print(f"Error: {terminal_text.strip_controls(line)}", file=sys.stderr)
    return summary


def _build_request(cli: Cli, args: Args, *, on_terminal: bool) -> CreateRequest:
    """Return the request that the command line describes."""
    from mngr.agents.create.request import CreateRequest

    dirty = args["dirty"] or ("ignore" if on_terminal else "fail")
    return CreateRequest(
        address=args["address"],
        kind=_choose_kind(args),
        args=args.rest or [],
        source=args["from"],
        branch=args["branch"],
        transfer=args["transfer"],
        dirty=dirty,
        notes_ignored=args["dirty"] is None,
        env=args["env"],
        pass_env=args["pass_env"],
        env_file=args["env_file"],
        labels=parse_pairs(args["label"], "--label"),
        windows=parse_pairs(args["window"], "--window"),
        idle_timeout=args["idle_timeout"],
        activity=args["activity"] or "output",
        yolo=args["yolo"],
        resume=args["resume"],
        yolo_confirmed=args["yolo"] and on_terminal and _confirm_yolo(cli, args),
        sandbox=args["sandbox"],
        network=args["network"],
        build_args=args["build_arg"],
        new_host=args["new_host"],
        count=args["count"],
        agents_per_host=args["agents_per_host"],
        reuse=args["reuse"],
    )


def _confirm_yolo(cli: Cli, args: Args) -> bool:
    """Ask the user once if the agent could reach more than its own host."""
    address = args["address"] or ""
    if args["sandbox"] or "@" in address or cli.context.load_project_settings(None).get("yolo.anywhere") is True:
        return False
    return cli.ask_yes_no(
        "--yolo lets the agent do anything that you can do here, without asking. Go on?", otherwise=False
    )


def _choose_kind(args: Args) -> str | None:
    """Return the kind from the command line, or the one of the settings if no command is given."""
    if "kind" not in args.given and args.rest and not args.rest[0].startswith("-"):
        return None
    return str(args["kind"]) if args["kind"] is not None else None


def _read_first_message(args: Args) -> str | None:
    """Return the first message from -m or --message-file, or None."""
    path = args["message_file"]
    if path is None:
        return str(args["message"]) if args["message"] is not None else None
    if args["message"] is not None:
        raise UsageError("-m and --message-file exclude each other", "leave one of them out")
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", error)
        raise MngrError(f"--message-file: cannot read {path}: {reason}", "check the path") from None


def _apply_templates(cli: Cli, args: Args) -> Args:
    """Parse the words again with [templates.NAME] between the settings and the flags."""
    settings = cli.context.settings
    merged = settings.get_table("commands.create")
    for name in args["template"]:
        values = settings.get_table(f"templates.{name}")
        if not values:
            known = sorted({key.split(".")[1] for key in settings.values if key.startswith("templates.")})
            hint = (
                suggest_closest(name, known) or f"known: {', '.join(known)}"
                if known
                else "make one: [templates.NAME] in the settings"
            )
            raise UsageError(f"there is no template {name!r}", hint)
        for key, value in values.items():
            merged[key] = [*as_list(merged.get(key)), *as_list(value)] if key in _REPEATABLE_KEYS else value
    parsed = parse_words(COMMAND, cli.words, merged)
    for key in _REPEATABLE_KEYS & set(merged) & parsed.given:  # Repeatable options add to the template's values.
        parsed.values[key] = [*(str(value) for value in as_list(merged[key])), *parsed.values[key]]
    return parsed


def _show_agents(cli: Cli, agents: list[AgentView]) -> None:
    """Print the created agents."""
    lines = [
        f"{agent.name} runs in {agent.work_dir}" + (f" on {agent.branch}" if agent.branch else "") for agent in agents
    ]
    render.render_rows(cli, "agents", [agent.to_dict() for agent in agents], None if cli.quiet else "\n".join(lines))


def parse_pairs(words: list[str], flag: str) -> dict[str, str]:
    """Return `K=V` words as a mapping; raise UsageError for a word without a key."""
    pairs: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            example = "logs='tail -f log.txt'" if flag == "--window" else "team=red"
            raise UsageError(f"{flag}: {word!r} is not NAME=VALUE", f"for example: {flag} {example}")
        pairs[key] = value
    return pairs
