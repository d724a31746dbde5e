"""The command `mngr create`."""

from __future__ import annotations

import sys

from mngr.agents.create.spec import AgentSpec
from mngr.base.config import as_list
from mngr.base.errors import PartialFailure, UsageError, suggest_closest
from mngr.cli.agents.connect import CONNECT_COMMAND, check_can_connect
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.cli_invocation import raise_single_failure
from mngr.cli.framework.command_spec import (
    COMMON_OPTIONS,
    Argument,
    CommandSpec,
    Option,
    make_field_option,
    place_below,
)
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.parse import Args, parse_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.create.create import CreatedAgent
    from mngr.base.model import AgentView, Outcome
    from mngr.cli.framework.cli_invocation import Cli


def _option(field: str, *flags: str, metavar: str | None = None, complete: str | None = None) -> Option:
    """Return the option that sets a field of AgentSpec."""
    return make_field_option(AgentSpec, field, *flags, metavar=metavar, complete=complete)


COMMAND = CommandSpec(
    name="create",
    summary=COMMANDS["create"][1],
    description=(
        "The agent works in its own git worktree on the new branch mngr/NAME. Its program runs in a tmux session that "
        "mngr manages. The agent gets a few standard environment variables such as PATH, and the variables that you "
        "choose with options. The agent kinds are claude, codex, opencode, gemini, pi, aider, player, mechanic and "
        "command. Plugins can add more kinds."
    ),
    arguments=(
        Argument(name="ADDRESS", help=AgentSpec._descriptions["address"].help, required=False),
        Argument(name="KIND", help=AgentSpec._descriptions["kind"].help, required=False, complete="kinds"),
    ),
    options=(
        *place_below(
            "The task",
            _option("message", "-m", "--message", metavar="TEXT"),
            Option(
                flags=("--message-file",),
                metavar="FILE",
                help="Send the content of FILE to the agent as its first message",
                complete="files",
            ),
            _option("resume", "--resume", metavar="ID"),
            Option(
                flags=("--snapshot",),
                metavar="NAME",
                help="Create the agent from the snapshot NAME, as mngr snapshot restore does",
                complete="snapshots",
            ),
            _option("reuse", "--reuse"),
            Option(
                flags=("--connect",),
                help="Attach your terminal to the agent after its start (default: on if you run mngr in a terminal)",
            ),
            CONNECT_COMMAND,
        ),
        *place_below(
            "The copy of the project",
            _option("source", "--from", metavar="PATH|AGENT|URL", complete="files"),
            _option("branch", "--branch", metavar="[BASE][:NEW]"),
            _option("transfer", "--transfer", metavar="MODE"),
            _option("dirty", "--dirty", metavar="HOW").replace(default=None),  # It depends on the terminal.
        ),
        *place_below(
            "The agent",
            _option("env", "--env", metavar="K=V"),
            _option("pass_env", "--pass-env", metavar="K"),
            _option("env_file", "--env-file", metavar="FILE", complete="files"),
            _option("labels", "--label", metavar="K=V"),
            _option("windows", "-w", "--window", metavar="NAME=CMD"),
            Option(
                flags=("-t", "--template"),
                metavar="NAME",
                is_repeatable=True,
                help="Use the options in the section [templates.NAME] of the settings; options on the command line "
                "override or extend these options",
                complete="templates",
            ),
            _option("idle_timeout", "--idle-timeout", metavar="TIME"),
            _option("activity", "--activity", metavar="WHAT"),
            _option("count", "--count", metavar="N"),
        ),
        *place_below(
            "Isolation",
            _option("sandbox", "--sandbox"),
            _option("network", "--network", metavar="on|off|allow=HOST[:PORT],…"),
            _option("yolo", "--yolo"),
        ),
        *place_below(
            "New hosts",
            _option("build_args", "-b", "--build-arg", metavar="KEY=VALUE"),
            _option("new_host", "--new-host"),
            _option("agents_per_host", "--agents-per-host", metavar="N"),
        ),
    ),
    trailing=Argument(
        name="ARGS",
        help="The arguments that mngr passes to the agent's program; without KIND, the command that the agent runs",
    ),
    examples=(
        ("mngr create fix claude -m 'make the failing tests pass'", "Start Claude Code on the branch mngr/fix"),
        ("mngr create foo -- make test", "Run a command in its own worktree, on the branch mngr/foo"),
        ("mngr create foo codex --dirty include", "Start Codex with a copy of your uncommitted changes"),
        ("mngr create w --count 3 --label team=red -- sleep 1000", "Create three agents: w-1, w-2 and w-3"),
        (
            "mngr create foo --env-file .env -w logs='tail -f log' -- ./serve",
            "Read environment variables from a file, and run a second command in another window",
        ),
        (
            "mngr create foo --sandbox --network allow=api.example.com:443 -- ./try.sh",
            "Run a program that you do not trust; the program can use only one network host",
        ),
    ),
)


_REPEATABLE_KEYS = {option.key for option in COMMAND.options if option.is_repeatable}


def run(cli: Cli, args: Args) -> int:
    """Create the agents with their first message, and attach if asked to."""
    from mngr.cli.framework.run import is_interactive

    on_terminal = is_interactive()
    if args["template"]:
        args = _apply_templates(cli, args)
    should_connect = _should_connect(cli, args, on_terminal=on_terminal)
    if should_connect:
        check_can_connect(cli, args["count"], args["connect_command"])
    if on_terminal and cli.format == "human":
        cli.context.ask = cli.ask_yes_no
    message = _read_first_message(args)
    if args["snapshot"] is not None:
        _check_snapshot_options(args)
        results: list[CreatedAgent | Exception] = [
            cli.fleet.create_from_snapshot(args["snapshot"], args["address"], message)
        ]
    else:
        results = cli.fleet.create_many(_build_spec(cli, args, message, on_terminal=on_terminal))
    first = _show_results(cli, args, results)[0]
    if should_connect:
        from mngr.cli.agents.connect import connect_terminal

        return connect_terminal(cli, first.id, args["connect_command"])
    return 0


def _show_results(cli: Cli, args: Args, results: list[CreatedAgent | Exception]) -> list[AgentView]:
    """Print the created agents and return them; raise an error if an agent or a message is missing."""
    name_prefix = f"{args['address'].partition('@')[0]}-" if args["address"] else "number "
    created: list[CreatedAgent] = []
    errors: list[Exception] = []
    failures: list[str] = []
    for number, result in enumerate(results, 1):
        if isinstance(result, Exception):
            errors.append(result)
            failures.append(f"{name_prefix}{number}: {result}")
        else:
            created.append(result)
    if errors and not created:
        raise errors[0]
    agents = [result.agent for result in created]
    _show_agents(cli, agents)
    _check_delivered(cli, [result.message for result in created if result.message is not None])
    if errors:
        summary = f"{len(failures)} of {len(results)} agents could not be created"
        hint = getattr(errors[0], "hint", None) or "list the agents that were created: mngr list"
        raise PartialFailure(_format_failures(cli, summary, failures), hint)
    return agents


def _check_snapshot_options(args: Args) -> None:
    """Raise UsageError for options that the snapshot decides already."""
    allowed = {"snapshot", "address", "message", "message_file", "connect", "connect_command", "template"}
    common = {option.key for option in COMMON_OPTIONS}
    conflicting = sorted(args.given - allowed - common)
    if args.rest:
        conflicting.append("--")
    if conflicting:
        flag = conflicting[0] if conflicting[0] == "--" else "--" + conflicting[0].replace("_", "-")
        raise UsageError(
            f"{flag} cannot be combined with --snapshot, which decides all options of the agent",
            f"leave out {flag}; see: mngr help create",
        )


def _should_connect(cli: Cli, args: Args, *, on_terminal: bool) -> bool:
    """True when `create` attaches: as --connect says, otherwise for a person at a terminal."""
    if "connect" in args.chosen:
        return bool(args["connect"])
    return cli.format == "human" and (on_terminal or "connect_command" in args.given)


def _check_delivered(cli: Cli, outcomes: list[Outcome]) -> None:
    """Raise an error if the first message did not reach every agent; the agents stay."""
    raise_single_failure(outcomes)
    missed = [outcome for outcome in outcomes if not outcome.ok]
    if missed:
        failed = [f"{outcome.name}: {outcome.error}" for outcome in missed]
        message = _format_failures(cli, f"the message did not reach {len(missed)} of {len(outcomes)} agents", failed)
        raise PartialFailure(message, missed[0].hint or "show the agents' states: mngr list")


def _format_failures(cli: Cli, summary: str, failed: list[str]) -> str:
    """Return one error message for several failures; for people, print each failure on its own line first."""
    if cli.format != "human":
        return f"{summary}: {'; '.join(failed)}"
    for line in failed:
        print(f"Error: {terminal_text.strip_controls(line)}", file=sys.stderr)
    return summary


def _build_spec(cli: Cli, args: Args, message: str | None, *, on_terminal: bool) -> AgentSpec:
    """Return the agents that the command line describes."""
    fields = args.collect_fields(COMMAND)
    fields["env"] = parse_pairs(
        args["env"], "--env", "write --env NAME=VALUE; to use the value from your shell, write --pass-env NAME"
    )
    fields["labels"] = parse_pairs(args["label"], "--label", "for example: --label team=red")
    fields["windows"] = parse_pairs(args["window"], "--window", "for example: --window logs='tail -f log.txt'")
    fields["dirty"] = args["dirty"] or ("ignore" if on_terminal else "fail")
    fields["message"] = message
    return AgentSpec(
        **fields,
        address=args["address"],
        kind=_choose_kind(args),
        command=args.rest or [],
        notes_ignored=args["dirty"] is None,
        yolo_confirmed=args["yolo"] and on_terminal and _confirm_yolo(cli, args),
    )


def _confirm_yolo(cli: Cli, args: Args) -> bool:
    """Ask the user once if the agent could reach more than its own host."""
    address = args["address"] or ""
    if args["sandbox"] or "@" in address or cli.context.load_project_settings(None).get("yolo.anywhere") is True:
        return False
    return cli.ask_yes_no(
        "--yolo lets the agent do anything that you can do on this machine, without asking. Continue?", otherwise=False
    )


def _choose_kind(args: Args) -> str | None:
    """Return the kind from the command line, or the one of the settings if no command is given."""
    words = args.rest or []
    has_command = bool(words) and not words[0].startswith("-")
    if has_command and "kind" not in args.given:
        return None
    return _find_text(args, "kind")


def _find_text(args: Args, key: str) -> str | None:
    """Return a value as text, or None. A value from the settings may be of another type."""
    value = args[key]
    return None if value is None else str(value)


def _read_first_message(args: Args) -> str | None:
    """Return the first message from -m or --message-file, or None."""
    path = args["message_file"]
    message = _find_text(args, "message")
    if path is None:
        return message
    if message is not None:
        raise UsageError("-m and --message-file cannot be combined", "leave out one of them; see: mngr help create")
    from mngr.cli.agents.message import read_message

    return read_message(path)


def _apply_templates(cli: Cli, args: Args) -> Args:
    """Parse the words again with [templates.NAME] between the settings and the flags."""
    settings = cli.context.settings
    merged = settings.get_table("commands.create")
    for name in args["template"]:
        values = settings.get_table(f"templates.{name}")
        if not values:
            raise _make_unknown_template_error(cli, name)
        for key, value in values.items():
            merged[key] = [*as_list(merged.get(key)), *as_list(value)] if key in _REPEATABLE_KEYS else value
    parsed = parse_words(COMMAND, cli.words, merged)
    for key in _REPEATABLE_KEYS & set(merged) & parsed.given:  # Repeatable options add to the template's values.
        parsed.values[key] = [*map(str, as_list(merged[key])), *parsed.values[key]]
    return parsed


def _make_unknown_template_error(cli: Cli, name: str) -> UsageError:
    """Return the error for a template that the settings do not have."""
    keys = cli.context.settings.values
    known = sorted({key.split(".")[1] for key in keys if key.startswith("templates.")})
    hint = f"create one, for example: mngr config set templates.{name}.transfer copy"
    if known:
        hint = suggest_closest(name, known) or f"templates: {', '.join(known)}"
    return UsageError(f"there is no template {name!r}", hint)


def _show_agents(cli: Cli, agents: list[AgentView]) -> None:
    """Print the created agents."""
    text = None if cli.quiet else "\n".join(_describe_agent(agent) for agent in agents)
    render.render_rows(cli, "agents", [agent.to_dict() for agent in agents], text)


def _describe_agent(agent: AgentView) -> str:
    branch = f" on {agent.branch}" if agent.branch else ""
    return f"{agent.name} runs in {agent.work_dir}{branch}"


def parse_pairs(words: list[str], flag: str, hint: str) -> dict[str, str]:
    """Return `K=V` words as a mapping; raise UsageError for a word without a key."""
    pairs: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise UsageError(f"{flag}: {word!r} is not NAME=VALUE", hint)
        pairs[key] = value
    return pairs
