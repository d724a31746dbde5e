"""`mngr demo`."""

from __future__ import annotations

import os

from mngr.base.errors import MngrError, PartialFailure
from mngr.base.model import Struct
from mngr.base.paths import Home, get_default_home
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.run import is_interactive
from mngr.cli.framework.spec import Argument, CommandSpec, Option
from mngr.cli.runs.run_options import RunProgress, build_parked_error, compute_exit_code
from mngr.cli.runs.tmr.shared import format_integration
from mngr.cli.runs.web import open_page

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mngr.api import Fleet
    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.parse import Args

COMMAND = CommandSpec(
    name="demo",
    summary=COMMANDS["demo"][1],
    description=(
        "Copies a small program with a tutorial and 24 tests, most of them in trouble, to a directory, makes a repository of it,\n"
        "and does what tmr run does, with an agent that needs no model: every test is run untouched, has an agent, and what that\n"
        "claims is run again by us. What is confirmed becomes one branch, which is run as a whole, with a PR.md and a report.\n"
        "No account and no network are needed; it takes about a minute. What needs thought ends as blocked, and that is no failure."
    ),
    arguments=(
        Argument(name="PATH", help="tests of the sample to work on, as for pytest (default: all)", is_repeatable=True, required=False),
    ),
    options=(
        Option(flags=("--dir",), metavar="DIR", default="mngr-demo", help="where to; must not be there, or be empty", complete="files"),
        Option(flags=("--open",), help="open the report in a browser (default: on a terminal)"),
    ),
    examples=(
        ("mngr demo", "all of it, in ./mngr-demo"),
        ("mngr demo tests/test_order.py --dir /tmp/pantry --no-open", "a few tests, elsewhere, without a browser"),
    ),
)  # fmt: skip


def run(cli: Cli, args: Args) -> int:
    """Make the project, see a run through, and say what came of it."""
    from mngr.agents.context import Context
    from mngr.api import Fleet
    from mngr.tmr.demo import check_requirements

    place = os.path.realpath(cli.context.resolve_path(args["dir"]))
    _check_unused(place)
    check_requirements(cli.fleet)
    context = Context(cli.context.home.root, cwd=place, settings=cli.assignments, note=cli.print_message)
    try:
        made = _run_demo(cli, Fleet(context=context), place, args["path"] or [])
    except BaseException:
        cli.print_message(f"what is there so far can go: {_build_removal_command(cli, place)}")
        raise
    finally:
        context.close()
    render.render_item(cli, made.to_dict(), terminal_text.strip_controls(_format_result(cli, made)))
    if args["open"] if "open" in args.chosen else is_interactive():
        open_page(f"file://{made.report}")
    return 0 if made.is_done else PartialFailure.exit_code


class DemoResult(Struct):
    """What came of it."""

    dir: str
    run: str
    before: dict[str, int]  # tests, untouched, by verdict
    counts: dict[str, int]  # tasks by outcome
    tasks: list[dict[str, Any]]
    branch: str
    verdict: str
    commits: list[dict[str, Any]]
    left_out: list[dict[str, Any]]
    pr: str
    report: str
    said: str  # of the branch, in a line

    @property
    def is_done(self) -> bool:
        """Whether every task came to an end of its own, and the branch is as green as it should be."""
        return self.verdict != "red" and not {"failed", "unverified"} & set(self.counts)


def _check_unused(place: str) -> None:
    if os.path.isdir(place) and not os.listdir(place):
        return
    if os.path.lexists(place):
        what = "is not empty" if os.path.isdir(place) else "is no directory"
        raise MngrError(f"{place} {what}", "name another place with --dir, or remove it")


def _run_demo(cli: Cli, fleet: Fleet, place: str, paths: list[str]) -> DemoResult:
    """From the copy to the report."""
    from mngr.mapreduce.governor import RunLimits
    from mngr.tmr.demo import create_demo_run, create_sample_repo
    from mngr.tmr.integrate.integrate import integrate
    from mngr.tmr.integrate.request import IntegrateRequest
    from mngr.tmr.run import execute_run
    from mngr.tmr.status import build_status
    from mngr.web.report.report import write_report

    create_sample_repo(fleet, place)
    cli.print_message(f"a small program, its tutorial and its tests are in {place}")
    run = create_demo_run(fleet, place, paths)
    say = RunProgress(cli)
    try:
        state = execute_run(fleet, run, RunLimits(), say)
    finally:
        say.close()
    if compute_exit_code(state) == 5:
        raise build_parked_error(f"cd {place}; mngr tmr resume", state)
    data = integrate(fleet, run, IntegrateRequest(), cli.print_message)
    found = build_status(run)
    return DemoResult(
        dir=place, run=run.name, before=state.recipe_rows["standing"][-1]["counts"], counts=found["counts"],
        tasks=_select_keys(found["tasks"], "task", "outcome", "verdict", "reason"),
        branch=data["branch"], verdict=data["verdict"], said=format_integration(data),
        commits=_select_keys(data["commits"], "commit", "kind", "subject"), left_out=_select_keys(data["left_out"], "change", "title", "why", "reason"),
        pr=os.path.join(run.path, "PR.md"), report=write_report(fleet.context.local_host, run),
    )  # fmt: skip


def _select_keys(rows: list[dict[str, Any]], *keys: str) -> list[dict[str, Any]]:
    return [{key: row[key] for key in keys} for row in rows]


def _format_result(cli: Cli, made: DemoResult) -> str:
    """What there was, what became of it, and where to look."""
    lines = [
        f"Tests, untouched:  {_format_counts(made.before)}",
        f"An agent for each: {_format_counts(made.counts)}",
    ]
    for one in made.tasks:
        if one["outcome"] != "unchanged":
            lines.append(f"  {one['outcome']:9} {one['task']}" + (f": {one['reason']}" if one["reason"] else ""))
    lines.append(f"What is confirmed: {made.said}")
    lines += [f"  {row['commit'][:10]} {row['subject']}" for row in made.commits]
    lines += [f"  left out: {row['title']}: {row['reason']}" for row in made.left_out]
    branch = f"; git log --stat {made.branch}" if made.commits else ""
    lines += [f"The pull request:  {made.pr}", f"The report:        {made.report}"]
    lines += [f"Look around:       cd {made.dir}; mngr tmr status; mngr tmr changes{branch}"]
    if "blocked" in made.counts:
        lines.append("What is blocked:   needs thought; mngr tmr run --only failing --agent claude")
    lines.append(f"Remove everything: {_build_removal_command(cli, made.dir)}")
    return "\n".join(lines)


def _format_counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} {word}" for word, number in sorted(counts.items())) or "none"


def _build_removal_command(cli: Cli, place: str) -> str:
    """What takes all of it away again, agents first."""
    import shlex

    away = f"rm -r {shlex.quote(place)}"
    if not os.path.isdir(os.path.join(place, ".mngr", "runs")):
        return away
    home = cli.context.home.root
    chosen = "" if home == Home(get_default_home()).root else f" --home {shlex.quote(home)}"
    return f"(cd {shlex.quote(place)} && mngr{chosen} tmr clean) && {away}"
