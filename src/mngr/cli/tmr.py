"""What the `tmr` commands share."""

from __future__ import annotations

from mngr.cli import render
from mngr.cli.pipeline import exit_code, parked, root_of, summary
from mngr.cli.spec import Argument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mngr.cli.parse import Args
    from mngr.cli.pipeline import Progress
    from mngr.cli.run import Cli
    from mngr.mapreduce.governor import Limits
    from mngr.mapreduce.rundir import RunDir
    from mngr.tmr.estimate import Estimate

RUN = Argument(name="RUN", help="a run (default: the latest)", required=False, complete="runs")
BAD = ("failed", "blocked", "refuted", "flaky", "unverified")


def finish(
    cli: Cli, place: RunDir, limits: Limits, say: Progress, agree: Callable[[Estimate], bool] | None = None
) -> int:
    """See a run through, and say how it ended; `agree` is asked before the first agent is made."""
    from mngr.tmr.run import go
    from mngr.tmr.status import status
    from mngr.web.report import Live

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
    if cli.format != "jsonl":
        report = status(place)
        render.rows(
            cli,
            "tasks",
            report["tasks"],
            f"{summary(state)}: {place.path}" + (f"\nlook at it: {pages.first}" if pages.first else ""),
            **{k: v for k, v in report.items() if k != "tasks"},
        )
    code = max(exit_code(state, BAD), 4 if state.facts.get("held") else 0)
    if code == 5:
        raise parked(f"mngr tmr resume {place.name}")
    return code


def run_of(cli: Cli, args: Args) -> RunDir:
    """The run that is meant; raises NotFound."""
    from mngr.mapreduce.rundir import find_run

    return find_run(root_of(cli), args["run"])
