"""The command `mngr tmr run`."""

from __future__ import annotations

import os

from mngr.agents.create.spec import AgentSpec
from mngr.base.errors import MngrError, NotFound, UsageError
from mngr.base.size_format import format_count
from mngr.cli.framework import render
from mngr.cli.framework.command_spec import Argument, CommandSpec, Option, place_below
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.parse import split_words_without
from mngr.cli.framework.run import is_interactive
from mngr.cli.runs.run_options import (
    INTEGRATOR_OPTION,
    ISOLATION_OPTION,
    LIMIT_OPTIONS,
    NOTIFY_OPTION,
    RunProgress,
    build_agent_request,
    build_pytest_command,
    format_host_suffix,
    get_project_root,
    make_agent_options,
    make_notifier,
    parse_limits,
    to_root_path,
)
from mngr.cli.runs.tmr.shared import build_unisolated_command, complete_run, offer_isolation_off

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args
    from mngr.mapreduce.governor import RunLimits
    from mngr.mapreduce.run_dir import RunDir
    from mngr.tmr.prepare.estimate import Estimate
    from mngr.tmr.run_plan import RunPlan

CONFIRM_AGENT_COUNT = 20  # From this number of agents, mngr asks the user for confirmation.

COMMAND = CommandSpec(
    name="tmr run",
    summary=COMMANDS["tmr run"][1],
    description=(
        "First, mngr runs all tests without any changes. Tests that fail for the same reason share a root cause. mngr "
        "starts one agent for each root cause and one agent for each other test. The agents repair or improve the "
        "tests. When an agent claims that a test passes, mngr re-runs the test in a clean room, which is a fresh copy "
        "of the project that no agent can access. At the end, mngr builds one branch from the confirmed changes, like "
        "mngr tmr integrate. mngr does not start any agent if it cannot collect the tests, or if the tests would "
        "import the project's package from outside their copy. After a crash, continue the run with mngr tmr resume.\n"
        "The exit code is 4 if a task is blocked, refuted or failed, or if the branch does not contain all confirmed "
        "changes. It is 5 if the run reached a limit of time or cost before all tasks were finished."
    ),
    arguments=(
        Argument(
            name="PATH",
            help="The tests that agents work on, written as for pytest (default: all tests below the current "
            "directory)",
            is_repeatable=True,
            required=False,
            complete="files",
        ),
    ),
    options=(
        *place_below(
            "Tests",
            Option(
                flags=("--only",),
                metavar="WHAT",
                choices=("failing", "changed", "all"),
                default="all",
                help="Let agents work only on failing tests (failing), only on tests that a change since the last run "
                "can affect (changed), or on all tests (all)",
            ),
            Option(
                flags=("--changed-since",),
                metavar="REF",
                help="Let agents work only on tests in files that have changed since the commit REF",
            ),
            Option(
                flags=("--max-tasks",),
                metavar="N",
                kind="int",
                default=100,
                help="Create a task for each failing test; if these are fewer than N tasks, add tasks for passing tests",
            ),
            Option(
                flags=("--pytest",), metavar="CMD", help="Use CMD to run pytest (default: the setting project.pytest)"
            ),
            Option(
                flags=("--runs",),
                metavar="K",
                kind="int",
                default=2,
                help="Run each test K times before any agent starts",
            ),
            Option(
                flags=("--fresh",),
                help="Run all tests before the agents start, even if mngr has stored their results in the last 24 "
                "hours and nothing has changed",
            ),
            Option(
                flags=("--test-timeout",),
                metavar="TIME",
                kind="length",
                default=600.0,
                help="Stop a test that runs longer than TIME",
            ),
            Option(
                flags=("--test-on",),
                metavar="ADDRESS",
                help="When mngr itself runs tests, run them on @HOST, or on new hosts that @.PROVIDER creates; --on "
                "chooses the host of the agents (default: this machine)",
            ),
            ISOLATION_OPTION,
        ),
        *place_below(
            "Verification",
            Option(
                flags=("--verify",),
                metavar="LEVEL",
                choices=("quick", "full"),
                default="quick",
                help="Choose how thoroughly mngr checks each claim: quick, or full for more experiments with each test",
            ),
            Option(
                flags=("--verify-runs",),
                metavar="K",
                kind="int",
                default=3,
                help="Run each test K times to check an agent's claim",
            ),
        ),
        *make_agent_options("default: mechanic, which needs no model"),
        *place_below(
            "Agents",
            Option(
                flags=("--agent-arg",),
                metavar="WORD",
                is_repeatable=True,
                help="Pass the argument WORD to the agent's program",
            ),
            Option(
                flags=("--tries",),
                metavar="N",
                kind="int",
                default=3,
                help="If an agent cannot repair a root cause, let another agent try, up to N agents in total",
            ),
        ),
        *LIMIT_OPTIONS,
        *place_below(
            "Integration",
            Option(
                flags=("--no-integrate",),
                help="Do not build a branch at the end of the run; mngr tmr integrate can build it later",
            ),
            INTEGRATOR_OPTION,
        ),
        *place_below(
            "Output",
            Option(flags=("--dry-run",), help="Print the tasks and the estimated cost without starting any agent"),
            Option(
                flags=("--yes",),
                help="Start the run without asking you for confirmation; mngr asks only before large runs",
            ),
            Option(flags=("--detach",), help="Continue the run in the background, and return immediately"),
            Option(flags=("--name",), metavar="RUN", help="Set the run's name (default: the current time)"),
            NOTIFY_OPTION,
        ),
    ),
    trailing=Argument(name="PYTEST ARGS", help="The arguments that mngr passes to pytest"),
    examples=(
        (
            "mngr tmr run tests/e2e --agent claude --sandbox --yolo --max-agents 20 --budget 50",
            "Let Claude Code work on the tests in tests/e2e, and stop when the cost reaches 50 dollars",
        ),
        ("mngr tmr run", "Work on every test with the rule-based agent, which needs no model"),
        (
            "mngr tmr run --only failing -- -m 'not slow'",
            "Work on failing tests, except tests with the pytest marker slow",
        ),
        ("mngr tmr run --dry-run", "Print the tasks of a run and its estimated cost"),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Create a run and complete it."""
    from mngr.host import git
    from mngr.mapreduce.run_repo import create_run
    from mngr.tmr.cleanroom.sandbox import require_isolation
    from mngr.tmr.run_plan import save_plan

    limits = parse_limits(args)
    root = get_project_root(cli)
    plan = _build_plan(cli, args, root).replace(limits=limits)
    if plan.isolation != "off":
        with offer_isolation_off(build_unisolated_command(cli)):
            require_isolation(cli.context, plan.test_on)
    run_dir, base = create_run(cli.fleet, root, args["name"])
    save_plan(run_dir, plan.replace(base=base))
    cli.print_message(f"run {run_dir.name}")
    dirty = git.list_dirty_files(cli.context.local_host, root, git.GIT)
    if dirty:
        cli.print_message(f"the run does not include {format_count(len(dirty), 'uncommitted change')}")
    if args["dry_run"]:
        return _dry_run(cli, run_dir, limits)
    if args["detach"]:
        return _start_in_own_agent(cli, run_dir, args["notify"])
    progress = RunProgress(cli, notify=make_notifier(args["notify"], run_dir))

    def confirm(estimate: Estimate) -> bool:
        estimate = _add_commands(cli, estimate)
        if args["yes"] or not is_interactive() or estimate.agents[1] < CONFIRM_AGENT_COUNT:
            if estimate.network_failures is not None:
                cli.print_message(estimate.network_failures.describe())
            if estimate.skipped_by_rank:
                cli.print_message(estimate.describe_chosen_tests())
            return True
        return progress.ask_yes_no(f"{estimate.text}\nStart the agents?")

    try:
        return complete_run(cli, run_dir, limits, progress, confirm)
    except MngrError:
        _remove_empty_run(run_dir)
        raise


def _remove_empty_run(run_dir: RunDir) -> None:
    """Delete a run that failed before it collected its tests, so that it does not count as the latest."""
    import shutil

    from mngr.mapreduce.journal.journal_file import read_journal
    from mngr.mapreduce.journal.replay import replay_rows

    if not replay_rows(read_journal(run_dir.journal)).recipe_rows.get("tests_collected"):
        shutil.rmtree(run_dir.path)


def _dry_run(cli: Cli, run_dir: RunDir, limits: RunLimits) -> int:
    """Do everything but start agents, print the estimate, and delete the run."""
    import shutil

    from mngr.base.json_structs import encode
    from mngr.tmr.pipeline import RunObserver, run_tasks
    from mngr.tmr.status import build_status

    estimates: list[Estimate] = []
    progress = RunProgress(cli, screen=False)

    def decline(estimate: Estimate) -> bool:
        estimates.append(_add_commands(cli, estimate))
        return False

    observer = RunObserver(on_row=progress, on_tasks_end=progress.close, confirm=decline)
    try:
        run_tasks(cli.fleet, run_dir, limits, observer)
        status = build_status(run_dir)
    finally:
        shutil.rmtree(run_dir.path)
    if cli.format != "jsonl":
        fields = {**encode(estimates[0]), "root_causes": encode(status.root_causes)}
        render.render_item(cli, fields, "\n".join(filter(None, [estimates[0].text, estimates[0].task_list])))
    return 0


def _add_commands(cli: Cli, estimate: Estimate) -> Estimate:
    """Add the command that plans a task for every passing test, and the one that runs the tests with network access.

    Each command starts a run, and a run needs its own name.
    """
    from mngr.base import shell

    words, rest = split_words_without(COMMAND, cli.words, {"max_tasks", "dry_run", "name"})
    task_count = len(estimate.tasks) + estimate.skipped_by_rank
    command = ["mngr", *cli.name.split(), *words, "--max-tasks", str(task_count), *rest]
    estimate = estimate.replace(more_command=shell.join(command))
    if estimate.network_failures is None:
        return estimate
    words, rest = split_words_without(COMMAND, cli.words, {"isolation", "name"})
    with_network = shell.join(["mngr", *cli.name.split(), *words, "--isolation", "network", *rest])
    return estimate.replace(network_failures=estimate.network_failures.replace(command=with_network))


def _start_in_own_agent(cli: Cli, run_dir: RunDir, notify: str | None) -> int:
    """Start the run in its own agent, and print how to watch it."""
    import sys

    env_assignments = [
        f"{name[6:].lower().replace('__', '.')}={value}" for name, value in os.environ.items() if name[:6] == "MNGR__"
    ]
    words = [sys.executable, "-m", "mngr", "--home", cli.context.home.root]
    words += [word for text in [*env_assignments, *cli.assignments] for word in ("-S", text)]
    words += ["tmr", "resume", run_dir.name, *(["--notify", notify] if notify else [])]
    spec = AgentSpec(
        address=f"tmr-{run_dir.name}",
        kind="command",
        command=words,
        source=run_dir.root,
        transfer="none",
        labels={"run": run_dir.name, "role": "run"},
    )
    agent = cli.fleet.create(spec)
    human = f"agent {agent.name} executes the run; watch it: mngr tmr attach {run_dir.name}"
    render.render_item(cli, {"run": run_dir.name, "agent": agent.name}, human)
    return 0


def _choose_test_paths(cli: Cli, args: Args, root: str) -> list[str]:
    """Return the named tests, or those below the current directory; an empty list means all."""
    default_paths = [] if os.path.realpath(cli.context.cwd) == os.path.realpath(root) else ["."]
    return [to_root_path(cli, root, path) for path in args["path"] or default_paths]


def _build_plan(cli: Cli, args: Args, root: str) -> RunPlan:
    """Return the plan that the command line describes; raise an error for wrong options."""
    from mngr.host import git
    from mngr.tmr.run_plan import RunPlan

    settings = cli.context.settings
    for key in ("runs", "tries", "verify_runs"):
        if args[key] < 1:
            flag = f"--{key.replace('_', '-')}"
            raise UsageError(f"{flag} must be at least 1", f"for example: {flag} 2")
    if args["max_tasks"] < 0:
        raise UsageError("--max-tasks must be at least 0", "for example: --max-tasks 100")
    since = args["changed_since"]
    if since is not None and git.find_commit(cli.context.local_host, root, since, git.SAFE_GIT) is None:
        raise NotFound(
            f"--changed-since: there is no commit {since!r}", "list the branches and tags: git branch --all; git tag"
        )
    if args["integrator"] is not None:
        cli.context.get_kind(args["integrator"])
    agent_options = build_agent_request(cli, args, "tmr", args["agent"] or "mechanic")
    tutorial = str(settings.get("tutorial.file") or "tutorial.sh")
    return RunPlan(
        base="",
        pytest=build_pytest_command(cli, args),
        paths=_choose_test_paths(cli, args, root),
        args=args.rest or [],
        program=settings.get("project.program"),
        agent=agent_options.agent,
        agent_args=args["agent_arg"] or [],
        on=agent_options.on,
        agents_per_host=agent_options.agents_per_host,
        keep_hosts=agent_options.keep_hosts,
        transfer=agent_options.transfer or "mirror",
        sandbox=agent_options.sandbox,
        network=agent_options.network,
        yolo=agent_options.yolo,
        only=args["only"],
        changed_since=since,
        baseline_runs=args["runs"],
        max_tasks=args["max_tasks"],
        fresh=args["fresh"],
        receipt_runs=args["verify_runs"],
        verify=args["verify"],
        test_on=format_host_suffix(args["test_on"]),
        isolation=args["isolation"],
        policy=settings.get_table("policy"),
        test_timeout=args["test_timeout"],
        tutorial=tutorial if os.path.exists(os.path.join(root, tutorial)) else None,
        integrate=not args["no_integrate"],
        integrator=args["integrator"],
        root_cause_attempts=1
        if agent_options.agent == "mechanic"
        else args["tries"],  # The mechanic would do the same again.
    )
