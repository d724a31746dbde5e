"""The command `mngr demo`."""

from __future__ import annotations

import os

from mngr.base.errors import MngrError, PartialFailure
from mngr.base.model import Struct
from mngr.base.paths import Home, get_default_home
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_spec import Argument, CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.run import is_interactive
from mngr.cli.runs.run_options import RunProgress, build_parked_error, compute_exit_code
from mngr.cli.runs.tmr.shared import format_integration
from mngr.cli.runs.web import open_page

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mngr.api import Fleet
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="demo",
    summary=COMMANDS["demo"][1],
    description=(
        "mngr creates a sample repository with a small program, a tutorial and 24 tests. The sample has about a dozen "
        "deliberate problems. Then mngr runs every test, starts agents that repair or improve the tests, and re-runs "
        "each test that an agent claims to have repaired. The agents follow fixed rules and need no model. Finally, "
        "mngr puts the confirmed changes on one branch, tests this branch, and writes a report and PR.md, the text of "
        "a pull request.\n"
        "The demo needs no account and no network. It takes a few minutes. The rule-based agent cannot solve some of "
        "the problems. mngr reports these tasks as blocked, and the demo still succeeds."
    ),
    arguments=(
        Argument(
            name="PATH",
            help="The tests of the sample that the agents work on, written as for pytest (default: all)",
            is_repeatable=True,
            required=False,
        ),
    ),
    options=(
        Option(
            flags=("--dir",),
            metavar="DIR",
            default="mngr-demo",
            help="Create the sample repository in DIR, which must be a new or empty directory",
            complete="files",
        ),
        Option(flags=("--open",), help="Open the report in a browser (default: on if you run mngr in a terminal)"),
    ),
    examples=(
        ("mngr demo", "Run the demo in ./mngr-demo"),
        (
            "mngr demo tests/test_order.py --dir /tmp/pantry --no-open",
            "Run only a few tests, and create the sample in another directory",
        ),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Create the sample project, complete a run in it, and print the result."""
    from mngr.agents.context import Context
    from mngr.api import Fleet
    from mngr.tmr.demo import check_requirements

    project_dir = os.path.realpath(cli.context.resolve_path(args["dir"]))
    _check_unused(project_dir)
    check_requirements(cli.fleet)
    context = Context(cli.context.home.root, cwd=project_dir, settings=cli.assignments, note=cli.print_message)
    try:
        result = _run_demo(cli, Fleet(context=context), project_dir, args["path"] or [])
    except BaseException:
        cli.print_message(f"remove what the demo created so far: {_build_removal_command(cli, project_dir)}")
        raise
    finally:
        context.close()
    render.render_item(cli, result.to_dict(), terminal_text.strip_controls(_format_result(cli, result)))
    if args["open"] if "open" in args.chosen else is_interactive():
        open_page(f"file://{result.report}")
    return 0 if result.is_done else PartialFailure.exit_code


class DemoResult(Struct):
    """The result of the demo run."""

    dir: str
    run: str
    before: dict[str, int]  # Tests of the baseline by verdict.
    counts: dict[str, int]  # Tasks by outcome.
    tasks: list[dict[str, Any]]
    branch: str
    verdict: str
    commits: list[dict[str, Any]]
    excluded: list[dict[str, Any]]
    pr: str
    report: str
    summary: str  # The result of the integration as one line.

    @property
    def is_done(self) -> bool:
        """True when no task failed or stayed unverified, and the branch is not red."""
        return self.verdict != "red" and not {"failed", "unverified"} & set(self.counts)


def _check_unused(project_dir: str) -> None:
    """Raise MngrError unless the directory is empty or does not exist."""
    if os.path.isdir(project_dir) and not os.listdir(project_dir):
        return
    if os.path.lexists(project_dir):
        problem = "is not empty" if os.path.isdir(project_dir) else "is not a directory"
        raise MngrError(f"{project_dir} {problem}", "choose another directory: mngr demo --dir DIR")


def _run_demo(cli: Cli, fleet: Fleet, project_dir: str, paths: list[str]) -> DemoResult:
    """Create the project, run the agents, integrate their changes, and write the report."""
    from mngr.base.json_structs import encode
    from mngr.mapreduce.governor import RunLimits
    from mngr.tmr.demo import create_demo_run, create_sample_repo
    from mngr.tmr.pipeline import RunObserver, run_pipeline
    from mngr.tmr.prepare.journal_facts import BaselineDone, list_facts
    from mngr.tmr.run_plan import load_plan
    from mngr.tmr.status import build_status
    from mngr.web.report.report import write_report

    create_sample_repo(fleet, project_dir)
    cli.print_message(f"created a sample project with a tutorial and tests in {project_dir}")
    run = create_demo_run(fleet, project_dir, paths)
    plan = load_plan(run)
    if plan.isolation == "off":
        cli.print_message(f"the tests run without a sandbox: {plan.no_sandbox_reason}")
    progress = RunProgress(cli)
    observer = RunObserver(on_row=progress, on_message=cli.print_message, on_tasks_end=progress.close)
    result = run_pipeline(fleet, run, RunLimits(), observer)
    state = result.state
    if compute_exit_code(state) == 5:
        raise build_parked_error(f"cd {project_dir}; mngr tmr resume", state)
    if result.integration_error is not None:
        raise result.integration_error
    integration = result.integration
    assert integration is not None  # the plan of a demo has an integration
    status = build_status(run)
    return DemoResult(
        dir=project_dir,
        run=run.name,
        before=list_facts(state, BaselineDone)[-1].counts,
        counts=status.counts,
        tasks=_select_keys(encode(status.tasks), "task", "outcome", "verdict", "reason"),
        branch=integration.branch,
        verdict=integration.verdict,
        summary=format_integration(integration),
        commits=_select_keys(encode(integration.commits), "commit", "kind", "subject"),
        excluded=_select_keys(encode(integration.excluded), "change", "title", "why", "reason"),
        pr=os.path.join(run.path, "PR.md"),
        report=write_report(fleet.context.local_host, run),
    )


def _select_keys(rows: list[dict[str, Any]], *keys: str) -> list[dict[str, Any]]:
    """Return the rows with only the given keys."""
    return [{key: row[key] for key in keys} for row in rows]


def _format_result(cli: Cli, result: DemoResult) -> str:
    """Return the text for people: the baseline, the outcomes, and the paths of the results."""
    lines = [
        f"Tests before:      {_format_counts(result.before)}",
        f"Agents' tasks:     {_format_counts(result.counts)}",
    ]
    for task in result.tasks:
        if task["outcome"] != "unchanged":
            lines.append(f"  {task['outcome']:9} {task['task']}" + (f": {task['reason']}" if task["reason"] else ""))
    lines.append(f"Result:            {result.summary}")
    lines += [f"  {row['commit'][:10]} {row['subject']}" for row in result.commits]
    lines += [f"  excluded: {row['title']}: {row['reason']}" for row in result.excluded]
    branch = f"; git log --stat {result.branch}" if result.commits else ""
    lines += [f"Pull request text: {result.pr}", f"Report:            {result.report}"]
    lines += [f"Next:              cd {result.dir}; mngr tmr status; mngr tmr changes{branch}"]
    if "blocked" in result.counts:
        lines.append("Blocked tasks:     they need a coding agent: mngr tmr run --only failing --agent claude")
    lines.append(f"Remove everything: {_build_removal_command(cli, result.dir)}")
    return "\n".join(lines)


def _format_counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {word}" for word, number in sorted(counts.items())) or "none"


def _build_removal_command(cli: Cli, project_dir: str) -> str:
    """Return the command that removes the demo, its agents first."""
    import shlex

    remove_directory = f"rm -r {shlex.quote(project_dir)}"
    if not os.path.isdir(os.path.join(project_dir, ".mngr", "runs")):
        return remove_directory
    home = cli.context.home.root
    home_option = "" if home == Home(get_default_home()).root else f" --home {shlex.quote(home)}"
    return f"(cd {shlex.quote(project_dir)} && mngr{home_option} tmr clean) && {remove_directory}"
