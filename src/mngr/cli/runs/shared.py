"""What the commands that run many agents share: their options, and how a person sees a run go on."""

from __future__ import annotations

import os
import sys

from mngr.base import shell
from mngr.base.errors import MngrError, UsageError
from mngr.cli.framework.render import dump
from mngr.cli.framework.spec import Option
from mngr.cli.framework.terminal_text import clean
from mngr.cli.runs.progress import line_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TypeVar

    from mngr.agents.context import Context
    from mngr.base.model import Record
    from mngr.base.names import Address
    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.parse import Args
    from mngr.mapreduce.governor import Limits
    from mngr.mapreduce.recipe import Wish
    from mngr.mapreduce.run_state import RunState

    R = TypeVar("R", bound=Record)

NOTIFY = Option(
    flags=("--notify",),
    metavar="CMD",
    help="run this at an alarm and at the end; MNGR_EVENT and MNGR_TEXT say what happened",
)
INTEGRATOR = Option(
    flags=("--integrator",),
    metavar="KIND",
    help="an agent for what nobody else could merge, the order of equal fixes, and a paragraph on the whole",
    complete="kinds",
)
WALLS = Option(
    flags=("--walls",),
    metavar="HOW",
    choices=("on", "network", "off"),
    default="on",
    help="around the tests that we run ourselves: on has no network, network has it",
)
WHO = (
    Option(flags=("--agent",), metavar="KIND", help="who does it", complete="kinds"),
    Option(
        flags=("--on",), metavar="ADDRESS", help="where: @HOST, .PROVIDER or @HOST.PROVIDER (default: here)"
    ),
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
BOUNDS = (
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


def limits_of(args: Args) -> Limits:
    """What the options allow; UsageError for one that allows nothing."""
    from mngr.mapreduce.governor import Limits

    for key in ("max_agents", "alarm", "max_starting"):
        if args[key] is not None and args[key] < 1:
            raise UsageError(f"--{key.replace('_', '-')} must be at least 1", "leave it out for the default")
    elsewhere = at_host(args.values.get("on")).startswith("@.")
    return Limits(
        max_agents=args["max_agents"], max_starting=args["max_starting"] or (10 if elsewhere else 4), budget=money(args, "budget"), budget_per_day=money(args, "budget_per_day"),
        max_tokens=args["max_tokens"], deadline=args["deadline"], timeout=args["timeout"], stall=args["stall"],
        canary=args["canary"], alarm=args["alarm"], on_alarm=args["on_alarm"],
    )  # fmt: skip


def keep_limits(args: Args, before: Mapping[str, Any]) -> Limits:
    """What a run began with, and what is given now."""
    return _keep(limits_of(args), before, {option.key for option in BOUNDS if option.key in args.chosen})


def keep_wish(args: Args, wish: Wish, before: Mapping[str, Any]) -> Wish:
    """The same for who does it, and where."""
    given = {option.key for option in WHO if option.key in args.chosen}
    return _keep(wish, before, {"per_host" if key == "agents_per_host" else key for key in given})


def _keep(now: R, before: Mapping[str, Any], given: set[str]) -> R:
    known = now.to_dict()
    return now.replace(**{key: value for key, value in before.items() if key in known and key not in given})


def money(args: Args, key: str) -> float | None:
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


def at_host(address: str | None) -> str:
    """What is added to a name to have it there."""
    return "" if not address else address if address.startswith("@") else f"@{address}"


def wish_of(cli: Cli, args: Args, prefix: str, kind: str) -> Wish:
    """Who shall do it, and where; raises MngrError for a kind or a provider that there is not."""
    from mngr.agents.inspect.find import address
    from mngr.mapreduce.recipe import Wish

    cli.context.kind(kind)
    on = at_host(args["on"])
    if "agents_per_host" in args.given and on and not on.startswith("@."):
        raise UsageError("--agents-per-host is for hosts that are made", "write --on .PROVIDER")
    if on:
        _check_hosts(cli.context, address(cli.context, on), args)
    return Wish(
        agent=kind, args=args.rest or [], on=on,
        transfer=args["transfer"] or "mirror", sandbox=args["sandbox"], network=args["network"], yolo=args["yolo"],
        prefix=prefix, per_host=args["agents_per_host"], keep_hosts=args["keep_hosts"],
    )  # fmt: skip


def _check_hosts(ctx: Context, where: Address, args: Args) -> None:
    """Raises at once what each of many hosts would be refused for."""
    from mngr.mapreduce.hosts.pool import rate_of

    if where.provider is None and where.host is not None:
        ctx.find_host(where.host)
    if where.provider in (None, "local"):
        return
    if args["sandbox"]:
        raise MngrError(
            f"--sandbox is not for {where.provider} hosts", "leave it out: each is a machine of its own"
        )
    rate_of(ctx, where.provider)
    provider = ctx.provider(where.provider)
    from mngr.host.protocol import ChecksOptions

    is_new = where.host is None or where.host not in provider.list()
    if is_new and isinstance(provider, ChecksOptions):
        provider.check({"network": args["network"]} if args["network"] else {})


class Progress:
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
        if screen and cli.format == "human" and not cli.quiet and _is_seen():
            from mngr.cli.runs.progress import Screen

            self._screen = Screen(rows or [])

    def __call__(self, row: dict[str, Any]) -> None:
        """Hear of one more row."""
        if self._notify and row["type"] in ("alarm", "ended"):
            _tell(self._notify, row)
        if self._screen is not None:
            self._screen.add(row)
            return
        if self._cli.format == "jsonl":
            sys.stdout.write(dump(row) + "\n")
            sys.stdout.flush()
            return
        text = line_of(row)
        if text:
            self._cli.say(text)

    def ask(self, question: str) -> bool:
        """What the person at the terminal says."""
        if self._screen is None:
            return self._cli.ask(question)
        with self._screen.aside():
            return self._cli.ask(question)

    def close(self) -> None:
        """Leave the terminal as it is."""
        if self._screen is not None:
            self._screen.close()


def _is_seen() -> bool:
    """Whether a person looks on; items may come by a pipe."""
    return sys.stdout.isatty() and sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _tell(command: str, row: dict[str, Any]) -> None:
    """Run the user's command; what becomes of it is its own affair."""
    text = str(row.get("text") or f"{row.get('how')} {row.get('why') or ''}").strip()
    variables = {**os.environ, "MNGR_EVENT": row["type"], "MNGR_TEXT": text}
    shell.start(["sh", "-c", command], env=variables, stdin=shell.DEVNULL)


def summary(state: RunState) -> str:
    """How many ended how."""
    counts: dict[str, int] = {}
    for one in state.tasks.values():
        word = one.outcome or one.state
        counts[word] = counts.get(word, 0) + 1
    return clean(", ".join(f"{number} {word}" for word, number in sorted(counts.items())) or "nothing to do")


def root_of(cli: Cli) -> str:
    """The project here; MngrError where there is none."""
    from mngr.base.paths import find_project_root

    root = find_project_root(cli.context.cwd)
    if root is None:
        raise MngrError(f"{cli.context.cwd} is in no project", "go to a git repository")
    return root


def from_root(cli: Cli, root: str, path: str) -> str:
    """A path or node id as pytest will see it in the root of the project."""
    name, colons, rest = path.partition("::")
    return os.path.relpath(cli.context.path(name), root) + colons + rest


def pytest_of(cli: Cli, args: Args) -> list[str]:
    """The command that runs pytest."""
    import shlex

    try:
        return shlex.split(
            args["pytest"] or cli.context.settings.get("project.pytest") or "python3 -m pytest"
        )
    except ValueError as error:
        raise UsageError(f"--pytest: {error}", "write it as for a shell: --pytest 'uv run pytest'") from None


def parked(go_on: str, state: RunState) -> MngrError:
    """What is raised for a run that is not over; `go_on` is the command that takes it up."""
    why = state.waits or next((one.reason for one in state.in_state("parked") if one.reason), None) or ""
    more = " --budget-per-day MORE" if "day's budget" in why else " --budget MORE" if "budget" in why else ""
    error = MngrError(
        f"the run is not over: some of it is parked{why and f' ({why})'}", f"go on: {go_on}{more}"
    )
    error.exit_code = 5
    return error


def exit_code(state: RunState, bad: tuple[str, ...] = ("failed", "blocked")) -> int:
    """0 all well, 4 some not, 5 some parked."""
    if any(one.state != "settled" for one in state.tasks.values()):
        return 5
    return 4 if any(one.outcome in bad for one in state.tasks.values()) else 0
