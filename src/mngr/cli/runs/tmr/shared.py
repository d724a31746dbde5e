"""What the `tmr` commands share."""

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
    place: RunDir,
    limits: RunLimits,
    say: RunProgress,
    agree: Callable[[Estimate], bool] | None = None,
) -> int:
    """See a run through, and say how it ended; `agree` is asked before the first agent is made."""
    from mngr.tmr.changes.excluded import list_unrepaired_causes
    from mngr.tmr.run import execute_run
    from mngr.tmr.status import build_status
    from mngr.web.report.report import LiveReport

    pages = LiveReport(cli.context.local_host, place)

    def hear(row: dict[str, Any]) -> None:
        say(row)
        pages.request_update()

    try:
        state = execute_run(cli.fleet, place, limits, hear, agree)
    except KeyboardInterrupt:
        say.close()
        cli.print_message(
            f"no more launches; agents go on. Go on: mngr tmr resume {place.name}; end it: mngr tmr stop {place.name}"
        )
        raise
    finally:
        say.close()
        pages.close()
    nothing = restore_failed_redos(cli, place)
    made = _integrate_if_asked(cli, place) if state.is_finished else None
    if cli.format != "jsonl":
        report = build_status(place, cli.context.local_host)
        lines = [f"{format_summary(state)}: {place.path}"]
        lines += [made["summary"]] if made else []
        lines += [f"look at it: {pages.first}"] if pages.first else []
        more = {key: value for key, value in report.items() if key != "tasks"}
        render.render_rows(cli, "tasks", report["tasks"], "\n".join(lines), **more, integration=made)
    code = max(compute_exit_code(state, BAD_OUTCOMES), 4 if nothing or list_unrepaired_causes(state) else 0)
    code = max(code, 0 if made is None or made["is_whole"] else 4)
    if code == 5:
        raise build_parked_error(f"mngr tmr resume {place.name}", state)
    return code


def restore_failed_redos(cli: Cli, place: RunDir) -> dict[str, str]:
    """Restore what nothing came of when it was to be done again, and say so."""
    from mngr.tmr.redo import restore_unanswered

    found = restore_unanswered(cli.context.local_host, place)
    for slug, why in found.items():
        cli.print_message(f"{slug}: all stays as it was: {terminal_text.strip_controls(why)}")
    return found


def _integrate_if_asked(cli: Cli, place: RunDir) -> dict[str, Any] | None:
    """What came of putting it all together, in short; None when that was not asked for."""
    from mngr.tmr.integrate.integrate import integrate, is_complete
    from mngr.tmr.integrate.request import IntegrateRequest
    from mngr.tmr.plan import load_plan
    from mngr.web.report.report import write_report

    plan = load_plan(place)
    if not plan.integrate:
        return None
    try:
        data = integrate(cli.fleet, place, IntegrateRequest(agent=plan.integrator), cli.print_message)
        write_report(cli.context.local_host, place)
    except MngrError as error:
        said = f"{error.message} ({error.hint})" if error.hint else error.message
        why = f"not integrated: {terminal_text.strip_controls(said)}"
        return {
            "verdict": None,
            "is_whole": False,
            "summary": f"{why}; again: mngr tmr integrate {place.name}",
        }
    kept = {key: data[key] for key in ("branch", "head", "verdict", "left_out", "red", "red_before")}
    return {**kept, "is_whole": is_complete(data), "summary": format_integration(data)}


def get_run(cli: Cli, args: Args, kind: str | None = None) -> RunDir:
    """The run that is meant, by default the latest of its kind; raises NotFound."""
    from mngr.mapreduce.run_dir import get_run

    return get_run(get_project_root(cli), args["run"], kind)


def format_integration(data: dict[str, Any]) -> str:
    """Return the result of an integration as one line."""
    ids = [name for row in data["commits"] for name in row["changes"]]
    fixes = sum(row["kind"] == "fix" for row in data["commits"])
    if data["verdict"] == "empty":
        return "there is nothing to integrate"
    left = f", {len(data['left_out'])} left out" if data["left_out"] else ""
    some = f", {fixes} of them {'a fix' if fixes == 1 else 'fixes'}" if fixes else ""
    word = "green" if data["verdict"] == "green" else "RED, and not delivered"
    still = f" (but for {len(data['red_before'])} that were red before)" if data["red_before"] else ""
    return f"{data['branch']}: {word}{still}: {format_count(len(ids), 'change')} in {format_count(len(data['commits']), 'commit')}{some}{left}"


def format_count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
