"""`mngr tmr integrate`."""

from __future__ import annotations

from mngr.base.errors import UsageError
from mngr.cli.framework import render
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.spec import CommandSpec, Option
from mngr.cli.framework.terminal_text import strip_controls
from mngr.cli.runs.run_options import INTEGRATOR_OPTION
from mngr.cli.runs.tmr.shared import RUN_ARGUMENT, format_count, format_integration, get_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mngr.cli.framework.command_line import Cli
    from mngr.cli.framework.parse import Args
    from mngr.mapreduce.run_dir import RunDir
    from mngr.tmr.integrate.request import IntegrateRequest

COMMAND = CommandSpec(
    name="tmr integrate",
    summary=COMMANDS["tmr integrate"][1],
    description=(
        "Takes every change whose receipt confirms it, makes each edit that several made one, and puts all that go together on\n"
        "the branch mngr/RUN/integrated: tests and texts in one commit, then each fix in one of its own, the best first. The whole\n"
        "suite is run on it; where it is red, the change that made it so is found by halving and put aside with the proof. What does\n"
        "not merge is tried with git's rerere, your merge tool, the agent that made it, and --integrator. PR.md and the report tell of\n"
        "it. Nothing of yours is touched but that one branch, and it is moved only to what was seen to be green.\n"
        "Everything that was run is kept: asked again, only what is new is run. Wishes hold until --with takes them back.\n"
        "Exit code 4 when something that was confirmed is not in the branch."
    ),
    arguments=(RUN_ARGUMENT,),
    options=(
        Option(flags=("--without",), metavar="CHANGE|TASK|SHA", is_repeatable=True, help="leave it out, from now on"),
        Option(flags=("--reason",), metavar="TEXT", help="why; later agents are told"),
        Option(flags=("--with",), metavar="CHANGE|TASK|SHA", is_repeatable=True, help="take it in again"),
        Option(flags=("--only",), metavar="WHAT", choices=("impl", "tests", "all"), help="only fixes of the implementation, or only the rest"),
        Option(flags=("--onto",), metavar="REF", help="what the branch stands on (default: what the run started from)"),
        Option(flags=("--verify",), metavar="LEVEL", choices=("quick", "full"), default="quick", help="full: first check each claim with an audit, and faults put into the code"),
        INTEGRATOR_OPTION,
        Option(flags=("--conflict-rounds",), metavar="N", kind="int", default=2, help="agents that are asked about one conflict; 0 asks nobody"),
        Option(flags=("--conflict-timeout",), metavar="TIME", kind="length", default=1800.0, help="how long all conflicts may take"),
        Option(flags=("--pr",), help="push the branch and open a draft pull request with gh or glab, or say how"),
        Option(flags=("--update-pr",), help="push to the one that is open: what is taken back is reverted, no commit goes"),
        Option(flags=("--rewrite",), help="with --update-pr: make the branch anew and force it, unless somebody pushed to it"),
    ),
    examples=(
        ("mngr tmr integrate", "the latest run as one branch"),
        ("mngr tmr integrate --without 3fa9c1 --reason 'the old name must go on working'", "all but one change"),
        ("mngr tmr integrate --onto main --pr", "on what main is now, as a draft pull request"),
    ),
)  # fmt: skip


def run(cli: Cli, args: Args) -> int:
    """Make the branch."""
    place = get_run(cli, args, "tmr")
    for one, other in (("reason", "without"), ("rewrite", "update_pr")):
        if args[one] and not args[other]:
            flag, with_ = (name.replace("_", "-") for name in (one, other))
            raise UsageError(f"--{flag} without --{with_}", f"give --{with_}, too")
    if args["pr"] and args["update_pr"]:
        raise UsageError("--pr and --update-pr", "the first opens one, the other changes it")
    if args["conflict_rounds"] < 0:
        raise UsageError("--conflict-rounds must not be negative", "0 asks nobody")
    if args["integrator"] is not None:
        cli.context.get_kind(args["integrator"])
    if args["update_pr"]:
        from mngr.tmr.deliver.branch import check_remote

        check_remote(cli.context.local_host, place)
    data = integrate_run(cli, place, _build_order(place, args))
    if cli.format == "jsonl":
        render.render_item(cli, data, "")
    if args["pr"] or args["update_pr"]:
        _publish_branch(cli, place, data, args)
    return compute_exit_code(data)


def _build_order(place: RunDir, args: Args) -> IntegrateRequest:
    from mngr.tmr.integrate.request import IntegrateRequest
    from mngr.tmr.plan import load_plan

    return IntegrateRequest(
        without=args["without"] or [], reason=args["reason"] or "", withdrawn=args["with"] or [], only=args["only"], onto=args["onto"],
        agent=args["integrator"] or load_plan(place).integrator, rounds=args["conflict_rounds"], conflict_timeout=args["conflict_timeout"],
        is_full_verify=args["verify"] == "full", is_append_only=args["update_pr"] and not args["rewrite"],
    )  # fmt: skip


def integrate_run(cli: Cli, place: RunDir, order: IntegrateRequest) -> dict[str, Any]:
    """Integrate a run, write its report, and say what came of it."""
    from mngr.tmr.changes.gather import find_integration
    from mngr.tmr.integrate.integrate import integrate, list_regressions
    from mngr.web.report.report import write_report

    before = find_integration(place) or {}
    data = integrate(cli.fleet, place, order, cli.print_message)
    page = write_report(cli.context.local_host, place)
    again = list_regressions(before, data) if before else []
    if cli.format == "jsonl":
        return data
    lines = [format_integration(data)]
    lines += [
        f"  {row['change']} {strip_controls(row['title'])}: {strip_controls(row['reason'])}"
        for row in data["left_out"][:20]
    ]
    if len(data["left_out"]) > 20:
        lines.append(f"  and {len(data['left_out']) - 20} more: mngr tmr changes {place.name}")
    if data["open"]:
        is_one = data["open"] == 1
        lines.append(
            f"{format_count(data['open'], 'task')} {'is' if is_one else 'are'} not settled yet: integrate again when {'it is' if is_one else 'they are'}"
        )
    if again:
        lines.append(
            f"red again: {', '.join(map(strip_controls, again[:5]))}"
            + (f" and {len(again) - 5} more" if len(again) > 5 else "")
        )
    lines += [f"red: {strip_controls(row['test'])}: {strip_controls(row['why'])}" for row in data["red"][:10]]
    log = f"git log --stat {data['onto'][:10]}..{data['branch']}; " if data["delivered"] else ""
    lines.append(f"look at it: {log}{place.path}/PR.md; {page}")
    render.render_item(cli, {**data, "red_again": again}, "\n".join(lines))
    return data


def compute_exit_code(data: dict[str, Any]) -> int:
    """0 when all is in, 4 when something is not."""
    from mngr.tmr.integrate.integrate import is_complete

    return 0 if is_complete(data) else 4


def _publish_branch(cli: Cli, place: RunDir, data: dict[str, Any], args: Args) -> None:
    """Push the branch and open a draft, or change the one that is open; or say how."""
    import os

    from mngr.host import git
    from mngr.tmr.changes.gather import save_integration
    from mngr.tmr.deliver.forge import get_base_branch, open_pull_request, update_pull_request
    from mngr.tmr.deliver.pull_request import read_title

    if data["delivered"] is None or data["verdict"] == "red":
        cli.print_message("nothing was pushed: there is no green branch")
        return
    local, path = cli.context.local_host, os.path.join(place.path, "PR.md")
    if args["pr"]:
        base = get_base_branch(local, place.root, data.get("onto_ref"))
        done = open_pull_request(local, place.root, data["branch"], base, read_title(path), path)
    else:
        seen = f"refs/remotes/origin/{data['branch']}"
        rewrite = (git.find_commit(local, place.root, seen) or "") if args["rewrite"] else ""
        done = update_pull_request(local, place.root, data["branch"], read_title(path), path, rewrite=rewrite)
    if not done.commands:
        data["pushed"] = {"commit": data["delivered"], "commits": data["commits"]}
        save_integration(place, data)
    lines = [line for line in (done.url, done.note, *([] if done.url else done.commands)) if line]
    for line in lines:
        cli.print_message(line)
