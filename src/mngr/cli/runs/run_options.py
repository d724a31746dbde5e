"""What the commands that run many agents share: their options, and how a person sees a run go on."""

from __future__ import annotations

import os
import sys

from mngr.base import shell
from mngr.base.errors import MngrError, UsageError
from mngr.cli.framework.render import format_json
from mngr.cli.framework.spec import Option
from mngr.cli.framework.terminal_text import strip_controls
from mngr.cli.runs.progress import format_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TypeVar

    from mngr.agents.context import Context
    from mngr.base.model import Struct
    from mngr.base.names import Address
    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.parse import Args
    from mngr.mapreduce.governor import RunLimits
    from mngr.mapreduce.recipe import AgentOptions
    from mngr.mapreduce.run_state import RunState

    R = TypeVar("R", bound=Struct)

NOTIFY_OPTION = Option(
    flags=("--notify",),
    metavar="CMD",
    help="run this at an alarm and at the end; MNGR_EVENT and MNGR_TEXT say what happened",
)
INTEGRATOR_OPTION = Option(
    flags=("--integrator",),
    metavar="KIND",
    help="an agent for what nobody else could merge, the order of equal fixes, and a paragraph on the whole",
    complete="kinds",
)
ISOLATION_OPTION = Option(
    flags=("--walls",),
    metavar="HOW",
    choices=("on", "network", "off"),
    default="on",
    help="around the tests that we run ourselves: on has no network, network has it",
)
AGENT_OPTIONS = (
    Option(flags=("--agent",), metavar="KIND", help="who does it", complete="kinds"),
    Option(flags=("--on",), metavar="ADDRESS", help="where: @HOST, .PROVIDER or @HOST.PROVIDER (default: here)"),
    Option(
        flags=("--agents-per-host",),
        metavar="N",
        kind="int",
        default=0,
        help="so many share a host that a provider makes (default: each has its own)",
    ),
    Option(
        flags=("--keep-hosts",),
        help="hosts that a provider makes stay; else each goes when its agents' work is home, and they to the graveyard",
    ),
    Option(
        flags=("--transfer",),
        metavar="MODE",
        choices=("worktree", "mirror"),
        help="how each gets its copy (default: mirror)",
    ),
    Option(flags=("--sandbox",), help="behind walls, as in create"),
    Option(flags=("--network",), metavar="on|off|allow=HOST[:PORT],…", help="as in create"),
    Option(flags=("--yolo",), help="as in create: they ask nobody for permission"),
)
LIMIT_OPTIONS = (
    Option(flags=("--max-agents",), metavar="N", kind="int", default=10, help="at once"),
    Option(
        flags=("--max-starting",), metavar="N", kind="int",
        help="agents, or hosts that a provider makes, that start at once (default: 4 agents, 10 hosts)",
    ),
    Option(flags=("--budget",), metavar="USD", help="what the run may cost; then the rest is parked"),
    Option(flags=("--budget-per-day",), metavar="USD", help="what all runs of a day may cost"),
    Option(flags=("--max-tokens",), metavar="N", kind="int", help="what the run may use"),
    Option(flags=("--deadline",), metavar="TIME", kind="length", help="how long the run may take"),
    Option(flags=("--timeout",), metavar="TIME", kind="length", default=3600.0, help="how long one task may take"),
    Option(
        flags=("--stall",), metavar="TIME", kind="length", default=600.0, help="no sign of life for so long is a hang"
    ),
    Option(flags=("--canary",), metavar="N", kind="int", default=3, help="so many go ahead, until one of them went all the way"),
    Option(flags=("--alarm",), metavar="N", kind="int", default=5, help="so many that fail alike stop the launches"),
    Option(
        flags=("--on-alarm",), metavar="HOW", choices=("pause", "probe"), default="pause",
        help="what then: wait for you, or try one now and then",
    ),
)  # fmt: skip


def parse_limits(args: Args) -> RunLimits:
    """What the options allow; UsageError for one that allows nothing."""
    from mngr.mapreduce.governor import RunLimits

    for key in ("max_agents", "alarm", "max_starting"):
        if args[key] is not None and args[key] < 1:
            raise UsageError(f"--{key.replace('_', '-')} must be at least 1", "leave it out for the default")
    elsewhere = format_host_suffix(args.values.get("on")).startswith("@.")
    return RunLimits(
        max_agents=args["max_agents"], max_starting=args["max_starting"] or (10 if elsewhere else 4), budget=parse_dollars(args, "budget"), budget_per_day=parse_dollars(args, "budget_per_day"),
        max_tokens=args["max_tokens"], deadline=args["deadline"], timeout=args["timeout"], stall=args["stall"],
        canary=args["canary"], alarm=args["alarm"], on_alarm=args["on_alarm"],
    )  # fmt: skip


def merge_limits(args: Args, before: Mapping[str, Any]) -> RunLimits:
    """What a run began with, and what is given now."""
    return _merge_given(
        parse_limits(args), before, {option.key for option in LIMIT_OPTIONS if option.key in args.chosen}
    )


def merge_agent_request(args: Args, wish: AgentOptions, before: Mapping[str, Any]) -> AgentOptions:
    """The same for who does it, and where."""
    given = {option.key for option in AGENT_OPTIONS if option.key in args.chosen}
    return _merge_given(wish, before, {"per_host" if key == "agents_per_host" else key for key in given})


def _merge_given(now: R, before: Mapping[str, Any], given: set[str]) -> R:
    known = now.to_dict()
    return now.replace(**{key: value for key, value in before.items() if key in known and key not in given})


def parse_dollars(args: Args, key: str) -> float | None:
    """US dollars; UsageError for what is no amount of money."""
    text = args[key]
    if text is None:
        return None
    try:
        amount = float(str(text).lstrip("$"))
    except ValueError:
        amount = -1.0
    if not 0 <= amount < float("inf"):
        flag = "--" + key.replace("_", "-")
        raise UsageError(f"{flag}: {text!r} is no amount of money", f"for example: {flag} 2.50")
    return amount


def format_host_suffix(address: str | None) -> str:
    """What is added to a name to have it there."""
    return "" if not address else address if address.startswith("@") else f"@{address}"


def build_agent_request(cli: Cli, args: Args, prefix: str, kind: str) -> AgentOptions:
    """Who shall do it, and where; raises MngrError for a kind or a provider that there is not."""
    from mngr.agents.inspect.find import parse_address
    from mngr.mapreduce.recipe import AgentOptions

    cli.context.get_kind(kind)
    on = format_host_suffix(args["on"])
    if "agents_per_host" in args.given and on and not on.startswith("@."):
        raise UsageError("--agents-per-host is for hosts that are made", "write --on .PROVIDER")
    if on:
        _check_hosts(cli.context, parse_address(cli.context, on), args)
    return AgentOptions(
        agent=kind, args=args.rest or [], on=on,
        transfer=args["transfer"] or "mirror", sandbox=args["sandbox"], network=args["network"], yolo=args["yolo"],
        prefix=prefix, per_host=args["agents_per_host"], keep_hosts=args["keep_hosts"],
    )  # fmt: skip


def _check_hosts(ctx: Context, where: Address, args: Args) -> None:
    """Raises at once what each of many hosts would be refused for."""
    from mngr.mapreduce.hosts.pool import find_hourly_rate

    if where.provider is None and where.host is not None:
        ctx.get_host_key(where.host)
    if where.provider in (None, "local"):
        return
    if args["sandbox"]:
        raise MngrError(f"--sandbox is not for {where.provider} hosts", "leave it out: each is a machine of its own")
    find_hourly_rate(ctx, where.provider)
    provider = ctx.get_provider(where.provider)
    from mngr.host.protocol import OptionChecker

    is_new = where.host is None or where.host not in provider.list()
    if is_new and isinstance(provider, OptionChecker):
        provider.check_options({"network": args["network"]} if args["network"] else {})


class RunProgress:
    """How people hear of a run: a screen of it at a terminal, else a line for what matters; all rows with `--format jsonl`."""

    def __init__(
        self,
        cli: Cli,
        *,
        notify: str | None = None,
        screen: bool = True,
        rows: list[dict[str, Any]] | None = None,
    ) -> None:
        self._cli = cli
        self._notify = notify
        self._screen = None
        if screen and cli.format == "human" and not cli.quiet and _is_interactive():
            from mngr.cli.runs.progress import ProgressScreen

            self._screen = ProgressScreen(rows or [])

    def __call__(self, row: dict[str, Any]) -> None:
        """Hear of one more row."""
        if self._notify and row["type"] in ("alarm", "ended"):
            _run_notify_command(self._notify, row)
        if self._screen is not None:
            self._screen.add_row(row)
            return
        if self._cli.format == "jsonl":
            sys.stdout.write(format_json(row) + "\n")
            sys.stdout.flush()
            return
        text = format_row(row)
        if text:
            self._cli.print_message(text)

    def ask_yes_no(self, question: str) -> bool:
        """What the person at the terminal says."""
        if self._screen is None:
            return self._cli.ask_yes_no(question)
        with self._screen.release_terminal():
            return self._cli.ask_yes_no(question)

    def close(self) -> None:
        """Leave the terminal as it is."""
        if self._screen is not None:
            self._screen.close()


def _is_interactive() -> bool:
    """Whether a person looks on; items may come by a pipe."""
    return sys.stdout.isatty() and sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _run_notify_command(command: str, row: dict[str, Any]) -> None:
    """Run the user's command; what becomes of it is its own affair."""
    text = str(row.get("text") or f"{row.get('how')} {row.get('why') or ''}").strip()
    variables = {**os.environ, "MNGR_EVENT": row["type"], "MNGR_TEXT": text}
    shell.start_process(["sh", "-c", command], env=variables, stdin=shell.DEVNULL)


def format_summary(state: RunState) -> str:
    """How many ended how."""
    counts: dict[str, int] = {}
    for one in state.tasks.values():
        word = one.outcome or one.state
        counts[word] = counts.get(word, 0) + 1
    return strip_controls(", ".join(f"{number} {word}" for word, number in sorted(counts.items())) or "nothing to do")


def get_project_root(cli: Cli) -> str:
    """The project here; MngrError where there is none."""
    from mngr.base.paths import find_project_root

    root = find_project_root(cli.context.cwd)
    if root is None:
        raise MngrError(f"{cli.context.cwd} is in no project", "go to a git repository")
    return root


def to_root_path(cli: Cli, root: str, path: str) -> str:
    """A path or node id as pytest will see it in the root of the project."""
    name, colons, rest = path.partition("::")
    return os.path.relpath(cli.context.resolve_path(name), root) + colons + rest


def build_pytest_command(cli: Cli, args: Args) -> list[str]:
    """The command that runs pytest."""
    import shlex

    try:
        return shlex.split(args["pytest"] or cli.context.settings.get("project.pytest") or "python3 -m pytest")
    except ValueError as error:
        raise UsageError(f"--pytest: {error}", "write it as for a shell: --pytest 'uv run pytest'") from None


def build_parked_error(go_on: str, state: RunState) -> MngrError:
    """What is raised for a run that is not over; `go_on` is the command that takes it up."""
    why = state.wait_reason or next((one.reason for one in state.list_in_state("parked") if one.reason), None) or ""
    more = " --budget-per-day MORE" if "day's budget" in why else " --budget MORE" if "budget" in why else ""
    error = MngrError(f"the run is not over: some of it is parked{why and f' ({why})'}", f"go on: {go_on}{more}")
    error.exit_code = 5
    return error


def compute_exit_code(state: RunState, bad: tuple[str, ...] = ("failed", "blocked")) -> int:
    """0 all well, 4 some not, 5 some parked."""
    if any(one.state != "settled" for one in state.tasks.values()):
        return 5
    return 4 if any(one.outcome in bad for one in state.tasks.values()) else 0
