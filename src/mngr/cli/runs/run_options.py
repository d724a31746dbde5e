"""The shared part of commands that run many agents: their options, and progress output."""

from __future__ import annotations

import os
import sys

from mngr.base.errors import MngrError, UsageError
from mngr.cli.framework.command_spec import Option, place_below
from mngr.cli.framework.render import format_json
from mngr.cli.framework.terminal_text import strip_controls
from mngr.mapreduce.journal.run_rows import AlarmRow, EndedRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from mngr.agents.context import Context
    from mngr.base.model import Struct
    from mngr.base.names_and_addresses import Address
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args
    from mngr.mapreduce.governor import RunLimits
    from mngr.mapreduce.journal.run_state import JournalRow, RunState
    from mngr.mapreduce.recipe import AgentOptions
    from mngr.mapreduce.run_dir import RunDir

    R = TypeVar("R", bound=Struct)

NOTIFY_OPTION = Option(
    flags=("--notify",),
    metavar="CMD",
    help="Run the shell command CMD at each alarm and at the end of the run; CMD can use the variables $MNGR_EVENT "
    "and $MNGR_TEXT, and it gets JSON on its standard input; mngr notify --follow does the same for all runs",
    group="Output",
)
INTEGRATOR_OPTION = Option(
    flags=("--integrator",),
    metavar="KIND",
    help="Start an agent of the kind KIND that resolves conflicts which mngr cannot resolve, orders fixes that are "
    "equally well confirmed, and summarizes the result (default: no agent)",
    complete="kinds",
    group="Integration",
)
ISOLATION_OPTION = Option(
    flags=("--isolation",),
    metavar="HOW",
    choices=("on", "network", "off"),
    default="on",
    help="Run the tests in a sandbox that has no network access (on), in a sandbox that has network access (network), "
    "or without a sandbox (off)",
    group="Tests",
)
CHANGED_ISOLATION_OPTION = Option(
    flags=("--isolation",),
    metavar="HOW",
    choices=("on", "network", "off"),
    help="From now on, run the tests of this run in a sandbox that has no network access (on), in a sandbox that has "
    "network access (network), or without a sandbox (off) (default: no change)",
    group="Tests",
)
_AGENT_OPTIONS = place_below(
    "Agents",
    Option(
        flags=("--on",),
        metavar="ADDRESS",
        help="Run the agents on the host @HOST or @HOST.PROVIDER, or on new hosts that @.PROVIDER creates (default: "
        "this machine)",
    ),
    Option(
        flags=("--agents-per-host",),
        metavar="N",
        kind="int",
        default=0,
        help="Run N agents on each host that the provider creates (default: 1)",
    ),
    Option(
        flags=("--keep-hosts",),
        help="Keep the hosts that the provider creates (default: remove each host when its agents have finished)",
    ),
    Option(
        flags=("--transfer",),
        metavar="MODE",
        choices=("worktree", "mirror"),
        help="Choose each agent's copy of the project: a git worktree (worktree) or a separate git repository "
        "(mirror) (default: mirror)",
    ),
    Option(
        flags=("--sandbox",),
        help="Run each agent in a sandbox, in which it can use system programs and its own "
        "copy of the project, but neither your other files nor the network",
    ),
    Option(
        flags=("--network",),
        metavar="on|off|allow=HOST[:PORT],…",
        help="Allow the agent to use the whole network (on), no network (off), or only the listed network hosts "
        "(default: on; with --sandbox, off)",
    ),
    Option(
        flags=("--yolo",),
        help="Let the agents act without asking you for permission; mngr requires --sandbox, "
        "new hosts, or your confirmation",
    ),
)
LIMIT_OPTIONS = place_below(
    "Limits",
    Option(flags=("--max-agents",), metavar="N", kind="int", default=10, help="Run at most N agents at the same time"),
    Option(
        flags=("--max-starting",),
        metavar="N",
        kind="int",
        help="Start at most N agents at the same time; with new hosts, start at most N hosts at the same time "
        "(default: 4 agents or 10 hosts)",
    ),
    Option(
        flags=("--budget",),
        metavar="USD",
        help="Stop the agents and keep their work when the run has cost this many US dollars (default: no limit)",
    ),
    Option(
        flags=("--budget-per-day",),
        metavar="USD",
        help="Stop the agents and keep their work when all of today's runs together have cost this many US dollars "
        "(default: no limit)",
    ),
    Option(
        flags=("--max-tokens",),
        metavar="N",
        kind="int",
        help="Stop the agents and keep their work when the run has used N tokens (default: no limit)",
    ),
    Option(
        flags=("--deadline",),
        metavar="TIME",
        kind="length",
        help="Stop the agents and keep their work when the run has lasted for TIME (default: no limit)",
    ),
    Option(
        flags=("--timeout",),
        metavar="TIME",
        kind="length",
        default=3600.0,
        help="Stop an agent that works on its task for longer than TIME",
    ),
    Option(
        flags=("--stall",),
        metavar="TIME",
        kind="length",
        default=600.0,
        help="Treat an agent as hung after TIME without activity",
    ),
    Option(
        flags=("--canary",),
        metavar="N",
        kind="int",
        default=3,
        help="Run at most N agents until the first of them has finished its task",
    ),
    Option(
        flags=("--alarm",),
        metavar="N",
        kind="int",
        default=5,
        help="Report an alarm and stop starting agents when N agents have failed in the same way",
    ),
    Option(
        flags=("--on-alarm",),
        metavar="HOW",
        choices=("pause", "probe"),
        default="pause",
        help="After an alarm, start no agents until you resume the run (pause), or start one agent from time to time "
        "as a test (probe)",
    ),
)


def make_agent_options(default: str) -> tuple[Option, ...]:
    """Return the options for the agents of a run. `default` says in words what happens without --agent."""
    kind_help = f"Use agents of the kind KIND, for example claude ({default})"
    kind_option = Option(flags=("--agent",), metavar="KIND", help=kind_help, complete="kinds")
    return (*place_below("Agents", kind_option), *_AGENT_OPTIONS)


_FIELD_OF_OPTION = {"stall": "stall_timeout"}  # options whose field in RunLimits has another name


def parse_limits(args: Args) -> RunLimits:
    """Return the limits from the options; raise UsageError for a limit below 1."""
    from mngr.mapreduce.governor import RunLimits

    for key in ("max_agents", "alarm", "max_starting"):
        if args[key] is not None and args[key] < 1:
            flag = f"--{key.replace('_', '-')}"
            raise UsageError(f"{flag} must be at least 1", f"for example: {flag} 4")
    is_new_hosts = format_host_suffix(args.values.get("on")).startswith("@.")
    return RunLimits(
        max_agents=args["max_agents"],
        max_starting=args["max_starting"] or (10 if is_new_hosts else 4),
        budget=parse_dollars(args, "budget"),
        budget_per_day=parse_dollars(args, "budget_per_day"),
        max_tokens=args["max_tokens"],
        deadline=args["deadline"],
        timeout=args["timeout"],
        stall_timeout=args["stall"],
        canary=args["canary"],
        alarm=args["alarm"],
        on_alarm=args["on_alarm"],
    )


def merge_limits(args: Args, saved: RunLimits) -> RunLimits:
    """Return the saved limits of a run, replaced by those given now."""
    given_keys = {option.key for option in LIMIT_OPTIONS if option.key in args.chosen}
    return _replace_given(saved, parse_limits(args), {_FIELD_OF_OPTION.get(key, key) for key in given_keys})


def merge_agent_request(args: Args, options: AgentOptions, saved: AgentOptions) -> AgentOptions:
    """Return the saved agent options of a run, replaced by those given now."""
    given = {"agent", *(option.key for option in _AGENT_OPTIONS)} & set(args.chosen)
    return _replace_given(saved, options, given)


def _replace_given(saved: R, current: R, given_fields: set[str]) -> R:
    """Return the saved values, replaced by those that were given now."""
    current_values = current.to_dict()
    return saved.replace(**{field: current_values[field] for field in given_fields})


def parse_dollars(args: Args, key: str) -> float | None:
    """Return an amount in US dollars, or None; raise UsageError if the text is no amount."""
    text = args[key]
    if text is None:
        return None
    try:
        amount = float(str(text).lstrip("$"))
    except ValueError:
        amount = -1.0
    if not 0 <= amount < float("inf"):
        flag = "--" + key.replace("_", "-")
        raise UsageError(f"{flag}: {text!r} is not an amount of money", f"for example: {flag} 2.50")
    return amount


def format_host_suffix(address: str | None) -> str:
    """Return the suffix that puts an agent on a host: `@HOST`, or nothing."""
    if not address:
        return ""
    return address if address.startswith("@") else f"@{address}"


def build_agent_request(cli: Cli, args: Args, prefix: str, kind: str) -> AgentOptions:
    """Return the kind of agent and the hosts to use; raise MngrError for an unknown kind or provider."""
    from mngr.agents.inspect.find import parse_address
    from mngr.mapreduce.recipe import AgentOptions

    cli.context.get_kind(kind)
    host_suffix = format_host_suffix(args["on"])
    if "agents_per_host" in args.given and host_suffix and not host_suffix.startswith("@."):
        raise UsageError(
            "--agents-per-host works only with hosts that a provider creates", "choose a provider: --on @.PROVIDER"
        )
    if host_suffix:
        _check_hosts(cli.context, parse_address(cli.context, host_suffix), args)
    return AgentOptions(
        agent=kind,
        args=args.rest or [],
        on=host_suffix,
        transfer=args["transfer"] or "mirror",
        sandbox=args["sandbox"],
        network=args["network"],
        yolo=args["yolo"],
        name_prefix=prefix,
        agents_per_host=args["agents_per_host"],
        keep_hosts=args["keep_hosts"],
    )


def _check_hosts(ctx: Context, address: Address, args: Args) -> None:
    """Raise the error now that each of the new hosts would raise later."""
    from mngr.mapreduce.hosts.pool import find_hourly_rate

    if address.provider is None and address.host is not None:
        ctx.get_host_key(address.host)
    if address.provider in (None, "local"):
        return
    if args["sandbox"]:
        raise MngrError(
            f"--sandbox does not work on {address.provider} hosts",
            "leave out --sandbox, or leave out --on to run the agents on this machine",
        )
    find_hourly_rate(ctx, address.provider)
    provider = ctx.get_provider(address.provider)
    from mngr.host.protocol import OptionChecker

    is_new = address.host is None or address.host not in provider.list()
    if is_new and isinstance(provider, OptionChecker):
        provider.check_options({"network": args["network"]} if args["network"] else {})


class RunProgress:
    """Shows a run: a screen on a terminal, else a line per important event, or all rows with `--format jsonl`."""

    def __init__(
        self,
        cli: Cli,
        *,
        notify: Callable[[JournalRow], None] | None = None,
        screen: bool = True,
        rows: list[JournalRow] | None = None,
    ) -> None:
        self._cli = cli
        self._notify = notify
        self._screen = None
        if screen and cli.format == "human" and not cli.quiet and _is_interactive():
            from mngr.cli.runs.progress import ProgressScreen

            self._screen = ProgressScreen(rows or [])

    def __call__(self, row: JournalRow) -> None:
        """Show one more row of the journal."""
        if self._notify is not None:
            self._notify(row)
        if self._screen is not None:
            self._screen.add_row(row)
            return
        if self._cli.format == "jsonl":
            from mngr.mapreduce.journal.journal_file import encode_row

            sys.stdout.write(format_json(encode_row(row)) + "\n")
            sys.stdout.flush()
            return
        from mngr.overview.run_facts import format_row

        text = format_row(row)
        if text:
            self._cli.print_message(text)

    def ask_yes_no(self, question: str) -> bool:
        """Ask the user at the terminal and return the answer."""
        if self._screen is None:
            return self._cli.ask_yes_no(question)
        with self._screen.release_terminal():
            return self._cli.ask_yes_no(question)

    def close(self) -> None:
        """Stop drawing, and leave the terminal as it is."""
        if self._screen is not None:
            self._screen.close()


def _is_interactive() -> bool:
    """True when standard output and error are a terminal; standard input may be a pipe with items."""
    return sys.stdout.isatty() and sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def make_notifier(command: str | None, run: RunDir) -> Callable[[JournalRow], None] | None:
    """Return a function that starts the command of `--notify` for an alarm or the end of a run, without waiting for it."""
    if not command:
        return None

    def start(row: JournalRow) -> None:
        from mngr.notifications.channels.command import start_command
        from mngr.notifications.run_reader import build_row_notification

        if isinstance(row, (AlarmRow, EndedRow)):
            notification = build_row_notification(run.path, row)
            start_command(command, notification.replace(text=notification.question))

    return start


def format_summary(state: RunState) -> str:
    """Return how many tasks have each outcome or state."""
    counts: dict[str, int] = {}
    for task in state.tasks.values():
        word = task.outcome or task.state
        counts[word] = counts.get(word, 0) + 1
    return strip_controls(", ".join(f"{number} {word}" for word, number in sorted(counts.items())) or "nothing to do")


def get_project_root(cli: Cli) -> str:
    """Return the root of the current project; raise MngrError if there is none."""
    from mngr.base.paths import find_project_root

    root = find_project_root(cli.context.cwd)
    if root is None:
        raise MngrError(
            f"{cli.context.cwd} is not in a git repository",
            "change to your project, or make this directory a repository: git init && git add -A && git commit -m start",
        )
    return root


def to_root_path(cli: Cli, root: str, path: str) -> str:
    """Return a path or node id relative to the root of the project, as pytest sees it."""
    name, colons, rest = path.partition("::")
    return os.path.relpath(cli.context.resolve_path(name), root) + colons + rest


def build_pytest_command(cli: Cli, args: Args) -> list[str]:
    """Return the command that runs pytest."""
    import shlex

    try:
        return shlex.split(args["pytest"] or cli.context.settings.get("project.pytest") or "python3 -m pytest")
    except ValueError as error:
        raise UsageError(f"--pytest is not a valid command: {error}", "for example: --pytest 'uv run pytest'") from None


def _find_raised_limit(reason: str) -> tuple[str, str]:
    """Return the words and the option for the limit that must be higher before the run can continue."""
    if "budget" in reason:
        return " with a higher budget", " --budget-per-day USD" if "per day" in reason else " --budget USD"
    if "tokens" in reason:
        return " with a higher limit", " --max-tokens N"
    return "", ""


def build_parked_error(resume_command: str, state: RunState) -> MngrError:
    """Return the error for a run that is not finished; `resume_command` continues the run."""
    reason = (
        state.wait_reason or next((task.reason for task in state.list_in_state("parked") if task.reason), None) or ""
    )
    raised_limit, extra_option = _find_raised_limit(reason)
    error = MngrError(
        f"the run is not finished: some tasks are parked{reason and f' ({reason})'}",
        f"continue the run{raised_limit}: {resume_command}{extra_option}",
    )
    error.exit_code = 5
    return error


def compute_exit_code(state: RunState, bad_outcomes: tuple[str, ...] = ("failed", "blocked")) -> int:
    """Return 0 if all went well, 4 if a task has a bad outcome, 5 if a task is not settled."""
    if any(task.state != "settled" for task in state.tasks.values()):
        return 5
    return 4 if any(task.outcome in bad_outcomes for task in state.tasks.values()) else 0
