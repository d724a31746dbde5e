"""The code that several `tmr` commands use."""

from __future__ import annotations

import contextlib

from mngr.base.size_format import format_count
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_spec import Argument
from mngr.cli.runs.run_options import build_parked_error, compute_exit_code, format_summary, get_project_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args
    from mngr.cli.runs.run_options import RunProgress
    from mngr.mapreduce.governor import RunLimits
    from mngr.mapreduce.run_dir import RunDir
    from mngr.tmr.changes.integration_record import Integration
    from mngr.tmr.pipeline import PipelineResult
    from mngr.tmr.prepare.estimate import Estimate

RUN_ARGUMENT = Argument(name="RUN", help="The run's name (default: the latest run)", required=False, complete="runs")
BAD_OUTCOMES = ("failed", "blocked", "refuted", "flaky", "unverified")


@contextlib.contextmanager
def offer_isolation_off(command: str) -> Iterator[None]:
    """Add the command that goes without isolation to the error for a host that cannot isolate tests."""
    from mngr.agents.sandbox.host_isolation import SandboxUnavailable

    try:
        yield
    except SandboxUnavailable as error:
        hint = f"{error.hint}; or run the tests without a sandbox: {command}"
        raise SandboxUnavailable(error.message, hint) from None


def build_unisolated_command(cli: Cli) -> str:
    """Return this command line with `--isolation off`."""
    from mngr.base import shell

    words = list(cli.words)
    end = words.index("--") if "--" in words else len(words)
    return shell.join(["mngr", *cli.name.split(), *words[:end], "--isolation", "off", *words[end:]])


def change_isolation(run_dir: RunDir, isolation: str | None) -> None:
    """Write another isolation to the plan of a run. None keeps the present one."""
    from mngr.tmr.run_plan import load_plan, save_plan

    plan = load_plan(run_dir)
    if isolation is not None and isolation != plan.isolation:
        save_plan(run_dir, plan.replace(isolation=isolation))


def complete_run(
    cli: Cli,
    run_dir: RunDir,
    limits: RunLimits,
    progress: RunProgress,
    confirm: Callable[[Estimate], bool] | None = None,
) -> int:
    """Run the pipeline, print its result, and return the exit code. `confirm` runs before the first agent is created."""
    from mngr.tmr.changes.list_exclusions import list_unrepaired_causes
    from mngr.tmr.pipeline import RunObserver, run_pipeline
    from mngr.web.report.report import LiveReport

    report = LiveReport(cli.context.local_host, run_dir)
    observer = RunObserver(
        on_row=progress, on_message=cli.print_message, on_tasks_end=progress.close, confirm=confirm, report=report
    )
    try:
        with offer_isolation_off(f"mngr tmr resume {run_dir.name} --isolation off"):
            result = run_pipeline(cli.fleet, run_dir, limits, observer)
    except KeyboardInterrupt:
        cli.print_message(
            f"mngr starts no more agents. The running agents continue.\nContinue the run: mngr tmr resume {run_dir.name}\nStop the agents: mngr tmr stop {run_dir.name}"
        )
        raise
    print_unanswered(cli, result.unanswered)
    integration = _describe_integration(run_dir, result)
    if cli.format != "jsonl":
        _render_result(cli, run_dir, result, integration, report.first)
    code = compute_exit_code(result.state, BAD_OUTCOMES)
    if result.unanswered or list_unrepaired_causes(result.state):
        code = max(code, 4)
    if integration is not None and not integration["is_whole"]:
        code = max(code, 4)
    if code == 5:
        raise build_parked_error(f"mngr tmr resume {run_dir.name}", result.state)
    return code


def print_unanswered(cli: Cli, unanswered: dict[str, str]) -> None:
    """Tell the user which tasks stay as they were, because their agent did not answer a redo."""
    for slug, reason in unanswered.items():
        cli.print_message(
            f"{slug}: the earlier result stays, because the agent gave no new result: {terminal_text.strip_controls(reason)}"
        )


def _describe_integration(run_dir: RunDir, result: PipelineResult) -> dict[str, Any] | None:
    """Return the main facts of the integration with a summary, or None if there was no integration."""
    from mngr.base.json_structs import encode

    if result.integration_error is not None:
        error = result.integration_error
        message = f"{error.message} ({error.hint})" if error.hint else error.message
        problem = f"not integrated: {terminal_text.strip_controls(message)}"
        return {
            "verdict": None,
            "is_whole": False,
            "summary": f"{problem}; try again: mngr tmr integrate {run_dir.name}",
        }
    integration = result.integration
    if integration is None:
        return None
    row = encode(integration)
    fields = {key: row[key] for key in ("branch", "head", "verdict", "excluded", "regressions", "still_failing")}
    return {**fields, "is_whole": integration.is_complete, "summary": format_integration(integration)}


def _render_result(
    cli: Cli, run_dir: RunDir, result: PipelineResult, integration: dict[str, Any] | None, report_path: str | None
) -> None:
    """Print the status of the run, the result of the integration and the path of the report."""
    from mngr.base.json_structs import encode
    from mngr.tmr.status import build_status

    status = build_status(run_dir, cli.context.local_host)
    lines = [f"{format_summary(result.state)}: {run_dir.path}"]
    if integration is not None:
        lines.append(integration["summary"])
    if report_path is not None:
        lines.append(f"report: {report_path}")
    fields = encode(status)
    tasks = fields.pop("tasks")
    render.render_rows(cli, "tasks", tasks, "\n".join(lines), **fields, integration=integration)


def get_run(cli: Cli, args: Args, kind: str | None = None) -> RunDir:
    """Return the named run, by default the latest of its kind; raise NotFound if there is none."""
    from mngr.mapreduce.run_repo import get_own_run

    return get_own_run(cli.context.local_host, get_project_root(cli), args["run"], kind)


def format_integration(integration: Integration) -> str:
    """Return the result of an integration as one line."""
    totals = integration.totals.describe()
    if integration.verdict == "empty":
        return f"{totals} There is nothing to merge."
    change_count = sum(len(commit.changes) for commit in integration.commits)
    contents = f"{format_count(change_count, 'change')} in {format_count(len(integration.commits), 'commit')}"
    excluded = f", {format_count(len(integration.excluded), 'change')} excluded" if integration.excluded else ""
    if integration.verdict == "red":
        return f"{totals} mngr did not move the branch {integration.branch}: {contents}{excluded}"
    return f"{totals} Branch {integration.branch}: {contents}{excluded}"
