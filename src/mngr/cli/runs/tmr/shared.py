"""The code that several `tmr` commands use."""

from __future__ import annotations

from mngr.base.errors import MngrError
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.spec import Argument
from mngr.cli.runs.run_options import build_parked_error, compute_exit_code, format_summary, get_project_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.parse import Args
    from mngr.cli.runs.run_options import RunProgress
    from mngr.mapreduce.governor import RunLimits
    from mngr.mapreduce.run_dir import RunDir
    from mngr.tmr.prepare.estimate import Estimate

RUN_ARGUMENT = Argument(name="RUN", help="a run (default: the latest)", required=False, complete="runs")
BAD_OUTCOMES = ("failed", "blocked", "refuted", "flaky", "unverified")


def complete_run(
    cli: Cli,
    run_dir: RunDir,
    limits: RunLimits,
    progress: RunProgress,
    confirm: Callable[[Estimate], bool] | None = None,
) -> int:
    """Complete a run, integrate it, and return the exit code. `confirm` runs before the first agent is created."""
    from mngr.tmr.changes.excluded import list_unrepaired_causes
    from mngr.tmr.run import execute_run
    from mngr.tmr.status import build_status
    from mngr.web.report.report import LiveReport

    live_report = LiveReport(cli.context.local_host, run_dir)

    def handle_row(row: dict[str, Any]) -> None:
        progress(row)
        live_report.request_update()

    try:
        state = execute_run(cli.fleet, run_dir, limits, handle_row, confirm)
    except KeyboardInterrupt:
        progress.close()
        cli.print_message(
            f"no more launches; agents go on. Go on: mngr tmr resume {run_dir.name}; end it: mngr tmr stop {run_dir.name}"
        )
        raise
    finally:
        progress.close()
        live_report.close()
    unanswered = restore_failed_redos(cli, run_dir)
    integration = _integrate_if_asked(cli, run_dir) if state.is_finished else None
    if cli.format != "jsonl":
        status = build_status(run_dir, cli.context.local_host)
        lines = [f"{format_summary(state)}: {run_dir.path}"]
        lines += [integration["summary"]] if integration else []
        lines += [f"look at it: {live_report.first}"] if live_report.first else []
        fields = {key: value for key, value in status.items() if key != "tasks"}
        render.render_rows(cli, "tasks", status["tasks"], "\n".join(lines), **fields, integration=integration)
    code = max(compute_exit_code(state, BAD_OUTCOMES), 4 if unanswered or list_unrepaired_causes(state) else 0)
    code = max(code, 0 if integration is None or integration["is_whole"] else 4)
    if code == 5:
        raise build_parked_error(f"mngr tmr resume {run_dir.name}", state)
    return code


def restore_failed_redos(cli: Cli, run_dir: RunDir) -> dict[str, str]:
    """Restore tasks whose redo had no result, tell the user, and return the reasons by task."""
    from mngr.tmr.redo import restore_unanswered

    reasons = restore_unanswered(cli.context.local_host, run_dir)
    for slug, reason in reasons.items():
        cli.print_message(f"{slug}: all stays as it was: {terminal_text.strip_controls(reason)}")
    return reasons


def _integrate_if_asked(cli: Cli, run_dir: RunDir) -> dict[str, Any] | None:
    """Integrate the run if its plan says so, and return a short result, or None."""
    from mngr.tmr.integrate.integrate import integrate, is_complete
    from mngr.tmr.integrate.request import IntegrateRequest
    from mngr.tmr.plan import load_plan
    from mngr.web.report.report import write_report

    plan = load_plan(run_dir)
    if not plan.integrate:
        return None
    try:
        integration = integrate(cli.fleet, run_dir, IntegrateRequest(agent=plan.integrator), cli.print_message)
        write_report(cli.context.local_host, run_dir)
    except MngrError as error:
        message = f"{error.message} ({error.hint})" if error.hint else error.message
        problem = f"not integrated: {terminal_text.strip_controls(message)}"
        return {
            "verdict": None,
            "is_whole": False,
            "summary": f"{problem}; again: mngr tmr integrate {run_dir.name}",
        }
    fields = {key: integration[key] for key in ("branch", "head", "verdict", "left_out", "red", "red_before")}
    return {**fields, "is_whole": is_complete(integration), "summary": format_integration(integration)}


def get_run(cli: Cli, args: Args, kind: str | None = None) -> RunDir:
    """Return the named run, by default the latest of its kind; raise NotFound if there is none."""
    from mngr.mapreduce.run_dir import get_run

    return get_run(get_project_root(cli), args["run"], kind)


def format_integration(integration: dict[str, Any]) -> str:
    """Return the result of an integration as one line."""
    ids = [change_id for row in integration["commits"] for change_id in row["changes"]]
    fixes = sum(row["kind"] == "fix" for row in integration["commits"])
    if integration["verdict"] == "empty":
        return "there is nothing to integrate"
    excluded_text = f", {len(integration['left_out'])} left out" if integration["left_out"] else ""
    fixes_text = f", {fixes} of them {'a fix' if fixes == 1 else 'fixes'}" if fixes else ""
    verdict_text = "green" if integration["verdict"] == "green" else "RED, and not delivered"
    red_before_text = (
        f" (but for {len(integration['red_before'])} that were red before)" if integration["red_before"] else ""
    )
    return f"{integration['branch']}: {verdict_text}{red_before_text}: {format_count(len(ids), 'change')} in {format_count(len(integration['commits']), 'commit')}{fixes_text}{excluded_text}"


def format_count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
