"""`mngr tmr run`."""

from __future__ import annotations

import os

from mngr.base.errors import MngrError, NotFound, UsageError
from mngr.cli.framework import render
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.run import is_interactive
from mngr.cli.framework.spec import Argument, CommandSpec, Option
from mngr.cli.runs.run_options import (
    AGENT_OPTIONS,
    INTEGRATOR_OPTION,
    ISOLATION_OPTION,
    LIMIT_OPTIONS,
    NOTIFY_OPTION,
    RunProgress,
    build_agent_request,
    build_pytest_command,
    format_host_suffix,
    get_project_root,
    parse_limits,
    to_root_path,
)
from mngr.cli.runs.tmr.shared import complete_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.parse import Args
    from mngr.mapreduce.governor import RunLimits
    from mngr.mapreduce.run_dir import RunDir
    from mngr.tmr.plan import RunPlan
    from mngr.tmr.prepare.estimate import Estimate

CONFIRM_AGENT_COUNT = 20  # agents, from which on a person at a terminal is asked

COMMAND = CommandSpec(
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
    arguments=(Argument(name="PATH", help="the tests to work on, as for pytest (default: all in this directory)", is_repeatable=True, required=False, complete="files"),),
    options=(
        Option(flags=("--pytest",), metavar="CMD", help="the command that runs pytest (default: [project] pytest)"),
        Option(flags=("--only",), metavar="WHAT", choices=("failing", "changed", "all"), default="all", help="which tests get an agent"),
        Option(flags=("--changed-since",), metavar="REF", help="only tests whose file has changed since"),
        Option(flags=("--runs",), metavar="K", kind="int", default=2, help="how often each test is run untouched"),
        Option(flags=("--verify",), metavar="LEVEL", choices=("quick", "full"), default="quick", help="how a claim is checked: full adds an audit, and faults put into the code"),
        Option(flags=("--verify-runs",), metavar="K", kind="int", default=3, help="how often a test is run for a receipt"),
        Option(flags=("--verify-on",), metavar="ADDRESS", help="where receipts are made (default: here)"),
        ISOLATION_OPTION,
        Option(flags=("--test-timeout",), metavar="TIME", kind="length", default=600.0, help="how long one test may take"),
        Option(flags=("--tries",), metavar="N", kind="int", default=3, help="agents for one shared cause"),
        Option(flags=("--no-integrate",), help="make no branch of it at the end; mngr tmr integrate does so later"),
        INTEGRATOR_OPTION,
        Option(flags=("--dry-run",), help="say what would be done and what it would take; no agent is made"),
        Option(flags=("--yes",), help="ask nothing"),
        Option(flags=("--detach",), help="run it as an agent of its own, and return"),
        NOTIFY_OPTION,
        Option(flags=("--agent-arg",), metavar="WORD", is_repeatable=True, help="a word for the agent's program"),
        Option(flags=("--name",), metavar="RUN", help="what to call the run (default: its time)"),
        *AGENT_OPTIONS,
        *LIMIT_OPTIONS,
    ),
    trailing_help="PYTEST ARGS",
    examples=(
        ("mngr tmr run", "every test, by the mechanic, which needs no model"),
        ("mngr tmr run tests/e2e --agent claude --sandbox --yolo --max-agents 20 --budget 50", "by Claude Code"),
        ("mngr tmr run --only failing -- -m 'not slow'", "what fails, without the slow ones"),
    ),
)  # fmt: skip


def run(cli: Cli, args: Args) -> int:
    """Make the run and see it through."""
    from mngr.host import git
    from mngr.mapreduce.run_repo import create_run
    from mngr.tmr.plan import save_plan

    limits = parse_limits(args)
    root = get_project_root(cli)
    plan = _build_plan(cli, args, root).replace(limits=limits.to_dict())
    place, base = create_run(cli.fleet, root, args["name"])
    save_plan(place, plan.replace(base=base))
    cli.print_message(f"run {place.name}")
    dirty = git.list_dirty_files(cli.context.local_host, root)
    if dirty:
        cli.print_message(f"{len(dirty)} uncommitted changes are not part of it")
    if args["dry_run"]:
        return _dry_run(cli, place, limits)
    if args["detach"]:
        return _start_detached(cli, place, args["notify"])
    say = RunProgress(cli, notify=args["notify"])

    def agree(expected: Estimate) -> bool:
        if args["yes"] or not is_interactive() or expected.agents[1] < CONFIRM_AGENT_COUNT:
            return True
        return say.ask_yes_no(f"{expected.text}. Go on?")

    try:
        return complete_run(cli, place, limits, say, agree)
    except MngrError:
        _remove_empty_run(place)
        raise


def _remove_empty_run(place: RunDir) -> None:
    """A run that has not found its tests shall not be the latest one."""
    import shutil

    from mngr.mapreduce.journal import read_journal

    if not any(row["type"] == "collected" for row in read_journal(place.journal)):
        shutil.rmtree(place.path)


def _dry_run(cli: Cli, place: RunDir, limits: RunLimits) -> int:
    """Everything but agents, and no trace of it."""
    import shutil

    from mngr.tmr.run import execute_run
    from mngr.tmr.status import build_status

    seen: list[Estimate] = []
    say = RunProgress(cli, screen=False)

    def refuse(expected: Estimate) -> bool:
        seen.append(expected)
        return False

    try:
        execute_run(cli.fleet, place, limits, say, refuse)
        found = build_status(place)
    finally:
        say.close()
        shutil.rmtree(place.path)
    about = {key: found[key] for key in ("clusters", "skipped")}
    if cli.format != "jsonl":
        render.render_item(cli, {**seen[0].to_dict(), **about}, seen[0].text)
    return 0


def _start_detached(cli: Cli, place: RunDir, notify: str | None) -> int:
    """The run as an agent of its own."""
    import sys

    given = [
        f"{name[6:].lower().replace('__', '.')}={value}" for name, value in os.environ.items() if name[:6] == "MNGR__"
    ]
    words = [sys.executable, "-m", "mngr", "--home", cli.context.home.root]
    words += [word for text in [*given, *cli.assignments] for word in ("-S", text)]
    words += ["tmr", "resume", place.name, *(["--notify", notify] if notify else [])]
    labels = {"run": place.name, "role": "run"}
    made = cli.fleet.create(f"tmr-{place.name}", "command", words, source=place.root, transfer="none", labels=labels)
    human = f"{made.name} runs it; watch it with: mngr tmr attach {place.name}"
    render.render_item(cli, {"run": place.name, "agent": made.name}, human)
    return 0


def _choose_test_paths(cli: Cli, args: Args, root: str) -> list[str]:
    """The tests that were named, or those below where we are; none of them means all."""
    here = [] if os.path.realpath(cli.context.cwd) == os.path.realpath(root) else ["."]
    return [to_root_path(cli, root, path) for path in args["path"] or here]


def _build_plan(cli: Cli, args: Args, root: str) -> RunPlan:
    from mngr.host import git
    from mngr.tmr.plan import RunPlan

    settings = cli.context.settings
    for key in ("runs", "tries", "verify_runs"):
        if args[key] < 1:
            raise UsageError(f"--{key.replace('_', '-')} must be at least 1", "leave it out for the default")
    since = args["changed_since"]
    if since is not None and git.find_commit(cli.context.local_host, root, since) is None:
        raise NotFound(f"--changed-since: there is no commit {since!r}", "name a branch, a tag or a commit")
    if args["integrator"] is not None:
        cli.context.get_kind(args["integrator"])
    wish = build_agent_request(cli, args, "tmr", args["agent"] or "mechanic")
    tutorial = str(settings.get("tutorial.file") or "tutorial.sh")
    return RunPlan(
        base="", pytest=build_pytest_command(cli, args), paths=_choose_test_paths(cli, args, root), args=args.rest or [],
        program=settings.get("project.program"), agent=wish.agent, agent_args=args["agent_arg"] or [], on=wish.on, per_host=wish.per_host, keep_hosts=wish.keep_hosts,
        transfer=wish.transfer or "mirror", sandbox=wish.sandbox, network=wish.network, yolo=wish.yolo, only=args["only"],
        changed_since=since, k=args["runs"], verify_k=args["verify_runs"], verify=args["verify"],
        verify_on=format_host_suffix(args["verify_on"]), walls=args["walls"], policy=settings.get_table("policy"), test_timeout=args["test_timeout"],
        tutorial=tutorial if os.path.exists(os.path.join(root, tutorial)) else None, integrate=not args["no_integrate"], integrator=args["integrator"], tries=1 if wish.agent == "mechanic" else args["tries"],  # it would do the same again
    )  # fmt: skip
