"""What the `tmr` commands share."""

from __future__ import annotations

from mngr.base.errors import MngrError
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.spec import Argument
from mngr.cli.runs.shared import exit_code, parked, root_of, summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.parse import Args
    from mngr.cli.runs.shared import Progress
    from mngr.mapreduce.governor import Limits
    from mngr.mapreduce.run_dir import RunDir
    from mngr.tmr.prepare.estimate import Estimate

RUN = Argument(name="RUN", help="a run (default: the latest)", required=False, complete="runs")
BAD = ("failed", "blocked", "refuted", "flaky", "unverified")


def finish(
    cli: Cli, place: RunDir, limits: Limits, say: Progress, agree: Callable[[Estimate], bool] | None = None
) -> int:
    """See a run through, and say how it ended; `agree` is asked before the first agent is made."""
    from mngr.tmr.changes.excluded import held
    from mngr.tmr.run import go
    from mngr.tmr.status import status
    from mngr.web.report.report import Live

    pages = Live(cli.context.local, place)

    def hear(row: dict[str, Any]) -> None:
        say(row)
        pages.hear()

    try:
        state = go(cli.fleet, place, limits, hear, agree)
    except KeyboardInterrupt:
        say.close()
        cli.say(
            f"no more launches; agents go on. Go on: mngr tmr resume {place.name}; end it: mngr tmr stop {place.name}"
        )
        raise
    finally:
        say.close()
        pages.close()
    nothing = put_back(cli, place)
    made = _integrated(cli, place) if state.is_over else None
    if cli.format != "jsonl":
        report = status(place, cli.context.local)
        lines = [f"{summary(state)}: {place.path}"]
        lines += [made["summary"]] if made else []
        lines += [f"look at it: {pages.first}"] if pages.first else []
        more = {key: value for key, value in report.items() if key != "tasks"}
        render.rows(cli, "tasks", report["tasks"], "\n".join(lines), **more, integration=made)
    code = max(exit_code(state, BAD), 4 if nothing or held(state) else 0)
    code = max(code, 0 if made is None or made["is_whole"] else 4)
    if code == 5:
        raise parked(f"mngr tmr resume {place.name}", state)
    return code


def put_back(cli: Cli, place: RunDir) -> dict[str, str]:
    """Restore what nothing came of when it was to be done again, and say so."""
    from mngr.tmr.redo import restore

    found = restore(cli.context.local, place)
    for slug, why in found.items():
        cli.say(f"{slug}: all stays as it was: {terminal_text.clean(why)}")
    return found


def _integrated(cli: Cli, place: RunDir) -> dict[str, Any] | None:
    """What came of putting it all together, in short; None when that was not asked for."""
    from mngr.tmr.integrate.integrate import integrate, is_whole
    from mngr.tmr.integrate.order import Order
    from mngr.tmr.plan import load_plan
    from mngr.web.report.report import write_report

    plan = load_plan(place)
    if not plan.integrate:
        return None
    try:
        data = integrate(cli.fleet, place, Order(agent=plan.integrator), cli.say)
        write_report(cli.context.local, place)
    except MngrError as error:
        said = f"{error.message} ({error.hint})" if error.hint else error.message
        why = f"not integrated: {terminal_text.clean(said)}"
        return {
            "verdict": None,
            "is_whole": False,
            "summary": f"{why}; again: mngr tmr integrate {place.name}",
        }
    kept = {key: data[key] for key in ("branch", "head", "verdict", "left_out", "red", "red_before")}
    return {**kept, "is_whole": is_whole(data), "summary": integration_summary(data)}


def run_of(cli: Cli, args: Args, kind: str | None = None) -> RunDir:
    """The run that is meant, by default the latest of its kind; raises NotFound."""
    from mngr.mapreduce.run_dir import find_run

    return find_run(root_of(cli), args["run"], kind)


def integration_summary(data: dict[str, Any]) -> str:
    """Return the result of an integration as one line."""
    ids = [name for row in data["commits"] for name in row["changes"]]
    fixes = sum(row["kind"] == "fix" for row in data["commits"])
    if data["verdict"] == "empty":
        return "there is nothing to integrate"
    left = f", {len(data['left_out'])} left out" if data["left_out"] else ""
    some = f", {fixes} of them {'a fix' if fixes == 1 else 'fixes'}" if fixes else ""
    word = "green" if data["verdict"] == "green" else "RED, and not delivered"
    still = f" (but for {len(data['red_before'])} that were red before)" if data["red_before"] else ""
    return f"{data['branch']}: {word}{still}: {count_of(len(ids), 'change')} in {count_of(len(data['commits']), 'commit')}{some}{left}"


def count_of(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
