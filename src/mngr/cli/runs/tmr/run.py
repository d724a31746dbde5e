"""`mngr tmr run`."""

from __future__ import annotations

import os

from mngr.base.errors import MngrError, NotFound, UsageError
from mngr.cli.framework import render
from mngr.cli.framework.run import is_terminal
from mngr.cli.framework.spec import Argument, Command, Option
from mngr.cli.framework.table import COMMANDS
from mngr.cli.runs.shared import (
    BOUNDS,
    INTEGRATOR,
    NOTIFY,
    WALLS,
    WHO,
    Progress,
    at_host,
    from_root,
    limits_of,
    pytest_of,
    root_of,
    wish_of,
)
from mngr.cli.runs.tmr.shared import finish

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.parse import Args
    from mngr.mapreduce.governor import Limits
    from mngr.mapreduce.run_dir import RunDir
    from mngr.tmr.plan import Plan
    from mngr.tmr.prepare.estimate import Estimate

ASKS = 20  # agents, from which on a person at a terminal is asked

COMMAND = Command(
    name="tmr run",
    summary=COMMANDS["tmr run"][1],
    description=(
        "Collects the tests, runs each of them untouched, puts those together that fail for one cause, and makes an agent for\n"
        "each cause and each test: to repair it, or to make it better. What an agent claims is fetched into the run's own\n"
        "repository and run again by us in a clean copy; only that counts. No agent is made while the tests cannot be collected\n"
        "or would not run the copy's own code. Everything is journaled: tmr resume goes on after a crash. At the end all that was\n"
        "confirmed becomes one branch, as tmr integrate makes it.\n"
        "Exit code 4 when something is blocked, refuted or not integrated, 5 when time or money ran out and the rest is parked."
    ),
    arguments=(Argument(name="PATH", help="the tests to work on, as for pytest (default: all in this directory)", many=True, required=False, complete="files"),),
    options=(
        Option(flags=("--pytest",), metavar="CMD", help="the command that runs pytest (default: [project] pytest)"),
        Option(flags=("--only",), metavar="WHAT", choices=("failing", "changed", "all"), default="all", help="which tests get an agent"),
        Option(flags=("--changed-since",), metavar="REF", help="only tests whose file has changed since"),
        Option(flags=("--runs",), metavar="K", kind="int", default=2, help="how often each test is run untouched"),
        Option(flags=("--verify",), metavar="LEVEL", choices=("quick", "full"), default="quick", help="how a claim is checked: full adds an audit, and faults put into the code"),
        Option(flags=("--verify-runs",), metavar="K", kind="int", default=3, help="how often a test is run for a receipt"),
        Option(flags=("--verify-on",), metavar="ADDRESS", help="where receipts are made (default: here)"),
        WALLS,
        Option(flags=("--test-timeout",), metavar="TIME", kind="length", default=600.0, help="how long one test may take"),
        Option(flags=("--tries",), metavar="N", kind="int", default=3, help="agents for one shared cause"),
        Option(flags=("--no-integrate",), help="make no branch of it at the end; mngr tmr integrate does so later"),
        INTEGRATOR,
        Option(flags=("--dry-run",), help="say what would be done and what it would take; no agent is made"),
        Option(flags=("--yes",), help="ask nothing"),
        Option(flags=("--detach",), help="run it as an agent of its own, and return"),
        NOTIFY,
        Option(flags=("--agent-arg",), metavar="WORD", many=True, help="a word for the agent's program"),
        Option(flags=("--name",), metavar="RUN", help="what to call the run (default: its time)"),
        *WHO,
        *BOUNDS,
    ),
    rest="PYTEST ARGS",
    examples=(
        ("mngr tmr run", "every test, by the mechanic, which needs no model"),
        ("mngr tmr run tests/e2e --agent claude --sandbox --yolo --max-agents 20 --budget 50", "by Claude Code"),
        ("mngr tmr run --only failing -- -m 'not slow'", "what fails, without the slow ones"),
    ),
)  # fmt: skip


def run(cli: Cli, args: Args) -> int:
    """Make the run and see it through."""
    from mngr.host import git
    from mngr.mapreduce.run_repo import begin
    from mngr.tmr.plan import save_plan

    limits = limits_of(args)
    root = root_of(cli)
    plan = _plan(cli, args, root).replace(limits=limits.to_dict())
    place, base = begin(cli.fleet, root, args["name"])
    save_plan(place, plan.replace(base=base))
    cli.say(f"run {place.name}")
    dirty = git.status(cli.context.local, root)
    if dirty:
        cli.say(f"{len(dirty)} uncommitted changes are not part of it")
    if args["dry_run"]:
        return _dry_run(cli, place, limits)
    if args["detach"]:
        return _detach(cli, place, args["notify"])
    say = Progress(cli, notify=args["notify"])

    def agree(expected: Estimate) -> bool:
        if args["yes"] or not is_terminal() or expected.agents[1] < ASKS:
            return True
        return say.ask(f"{expected.text}. Go on?")

    try:
        return finish(cli, place, limits, say, agree)
    except MngrError:
        _forget_stillborn(place)
        raise


def _forget_stillborn(place: RunDir) -> None:
    """A run that has not found its tests shall not be the latest one."""
    import shutil

    from mngr.mapreduce.journal import read_journal

    if not any(row["type"] == "collected" for row in read_journal(place.journal)):
        shutil.rmtree(place.path)


def _dry_run(cli: Cli, place: RunDir, limits: Limits) -> int:
    """Everything but agents, and no trace of it."""
    import shutil

    from mngr.tmr.run import go
    from mngr.tmr.status import status

    seen: list[Estimate] = []
    say = Progress(cli, screen=False)

    def refuse(expected: Estimate) -> bool:
        seen.append(expected)
        return False

    try:
        go(cli.fleet, place, limits, say, refuse)
        found = status(place)
    finally:
        say.close()
        shutil.rmtree(place.path)
    about = {key: found[key] for key in ("clusters", "skipped")}
    if cli.format != "jsonl":
        render.one(cli, {**seen[0].to_dict(), **about}, seen[0].text)
    return 0


def _detach(cli: Cli, place: RunDir, notify: str | None) -> int:
    """The run as an agent of its own."""
    import sys

    given = [
        f"{name[6:].lower().replace('__', '.')}={value}"
        for name, value in os.environ.items()
        if name[:6] == "MNGR__"
    ]
    words = [sys.executable, "-m", "mngr", "--home", cli.context.home.root]
    words += [word for text in [*given, *cli.assignments] for word in ("-S", text)]
    words += ["tmr", "resume", place.name, *(["--notify", notify] if notify else [])]
    labels = {"run": place.name, "role": "run"}
    made = cli.fleet.create(
        f"tmr-{place.name}", "command", words, source=place.root, transfer="none", labels=labels
    )
    human = f"{made.name} runs it; watch it with: mngr tmr attach {place.name}"
    render.one(cli, {"run": place.name, "agent": made.name}, human)
    return 0


def _paths(cli: Cli, args: Args, root: str) -> list[str]:
    """The tests that were named, or those below where we are; none of them means all."""
    here = [] if os.path.realpath(cli.context.cwd) == os.path.realpath(root) else ["."]
    return [from_root(cli, root, path) for path in args["path"] or here]


def _plan(cli: Cli, args: Args, root: str) -> Plan:
    from mngr.host import git
    from mngr.tmr.plan import Plan

    settings = cli.context.settings
    for key in ("runs", "tries", "verify_runs"):
        if args[key] < 1:
            raise UsageError(f"--{key.replace('_', '-')} must be at least 1", "leave it out for the default")
    since = args["changed_since"]
    if since is not None and git.resolve(cli.context.local, root, since) is None:
        raise NotFound(f"--changed-since: there is no commit {since!r}", "name a branch, a tag or a commit")
    if args["integrator"] is not None:
        cli.context.kind(args["integrator"])
    wish = wish_of(cli, args, "tmr", args["agent"] or "mechanic")
    tutorial = str(settings.get("tutorial.file") or "tutorial.sh")
    return Plan(
        base="", pytest=pytest_of(cli, args), paths=_paths(cli, args, root), args=args.rest or [],
        program=settings.get("project.program"), agent=wish.agent, agent_args=args["agent_arg"] or [], on=wish.on, per_host=wish.per_host, keep_hosts=wish.keep_hosts,
        transfer=wish.transfer or "mirror", sandbox=wish.sandbox, network=wish.network, yolo=wish.yolo, only=args["only"],
        changed_since=since, k=args["runs"], verify_k=args["verify_runs"], verify=args["verify"],
        verify_on=at_host(args["verify_on"]), walls=args["walls"], policy=settings.table("policy"), test_timeout=args["test_timeout"],
        tutorial=tutorial if os.path.exists(os.path.join(root, tutorial)) else None, integrate=not args["no_integrate"], integrator=args["integrator"], tries=1 if wish.agent == "mechanic" else args["tries"],  # it would do the same again
    )  # fmt: skip
