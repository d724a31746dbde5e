"""The command `mngr tmr integrate`."""

from __future__ import annotations

from mngr.base.errors import MngrError, UsageError
from mngr.base.size_format import format_count
from mngr.cli.framework import render
from mngr.cli.framework.command_spec import CommandSpec, Option, place_below
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.framework.terminal_text import strip_controls
from mngr.cli.runs.run_options import CHANGED_ISOLATION_OPTION, INTEGRATOR_OPTION
from mngr.cli.runs.tmr.shared import (
    RUN_ARGUMENT,
    change_isolation,
    format_integration,
    get_run,
    offer_isolation_off,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args
    from mngr.mapreduce.run_dir import RunDir
    from mngr.tmr.changes.integration_record import Integration
    from mngr.tmr.integrate.integration_request import IntegrateRequest

COMMAND = CommandSpec(
    name="tmr integrate",
    summary=COMMANDS["tmr integrate"][1],
    description=(
        "mngr puts all confirmed changes on the branch mngr/RUN/integrated. The branch has one commit for tests and "
        "documents, and then one commit for each fix of the program; the fix with the best evidence comes first. If "
        "several agents made the same edit, the branch contains it once. mngr runs the whole test suite on the "
        "branch. If the suite fails, mngr bisects to the responsible change and excludes it, with the evidence. If "
        "changes conflict, mngr tries four ways to resolve the conflict: git rerere, then your merge tool, then the "
        "agent that made the change, and then the agent from --integrator. mngr writes PR.md, the text of the pull "
        "request, and the report. mngr does not change any other branch, and it moves mngr/RUN/integrated only to a "
        "commit whose tests passed.\n"
        "If you run mngr tmr integrate again, it repeats only the steps whose input has changed. A change that you "
        "exclude stays excluded until you include it with --with.\n"
        "The exit code is 4 if the branch does not contain all confirmed changes."
    ),
    arguments=(RUN_ARGUMENT,),
    options=(
        *place_below(
            "Choose changes",
            Option(
                flags=("--without",),
                metavar="CHANGE|TASK|SHA",
                is_repeatable=True,
                help="Exclude a change, a commit or all changes of a task, now and in later integrations",
            ),
            Option(
                flags=("--reason",),
                metavar="TEXT",
                help="Record why you exclude a change; mngr shows the reason to later agents that work on the same "
                "code",
            ),
            Option(
                flags=("--with",),
                metavar="CHANGE|TASK|SHA",
                is_repeatable=True,
                help="Include a change, a commit or all changes of a task that you excluded earlier",
            ),
            Option(
                flags=("--only",),
                metavar="WHAT",
                choices=("impl", "tests", "all"),
                help="Include only fixes of the program (impl), only changes to tests and documents (tests), or all "
                "changes (all) (default: all)",
            ),
            Option(
                flags=("--onto",),
                metavar="REF",
                help="Build the branch on the commit REF (default: the commit from which the run started)",
            ),
        ),
        *place_below(
            "Tests",
            Option(
                flags=("--verify",),
                metavar="LEVEL",
                choices=("quick", "full"),
                default="quick",
                help="Trust the run's earlier results (quick), or first check each claim again with more experiments "
                "(full)",
            ),
            CHANGED_ISOLATION_OPTION,
        ),
        *place_below(
            "Conflicts",
            INTEGRATOR_OPTION,
            Option(
                flags=("--conflict-rounds",),
                metavar="N",
                kind="int",
                default=2,
                help="Ask at most N agents to resolve one conflict; with 0, ask no agent",
            ),
            Option(
                flags=("--conflict-timeout",),
                metavar="TIME",
                kind="length",
                default=1800.0,
                help="Stop resolving conflicts after TIME in total",
            ),
        ),
        *place_below(
            "Pull request",
            Option(
                flags=("--pr",),
                help="Push the branch and open a draft pull request with the program gh or glab; if neither is "
                "installed, print the commands that you can run",
            ),
            Option(
                flags=("--update-pr",),
                help="Push new commits to the open pull request; mngr removes excluded changes with revert commits, "
                "not with a force-push",
            ),
            Option(
                flags=("--report-url",),
                metavar="URL",
                help="Link the tasks in PR.md to the report at URL, to which you have copied the report folder "
                "(default: no links)",
            ),
            Option(
                flags=("--rewrite",),
                help="With --update-pr, build the branch again and force-push it, unless somebody else has pushed to "
                "it",
            ),
        ),
    ),
    examples=(
        ("mngr tmr integrate", "Build the branch of the latest run"),
        (
            "mngr tmr integrate --without 3fa9c1 --reason 'the old name must keep working'",
            "Exclude one change",
        ),
        (
            "mngr tmr integrate --onto main --pr",
            "Build the branch on the current main branch, and open a draft pull request",
        ),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Build the integrated branch, and publish it if asked to."""
    from mngr.base.json_structs import encode

    run_dir = get_run(cli, args, "tmr")
    for option, required_option, example in (
        ("reason", "without", "--without CHANGE --reason TEXT"),
        ("rewrite", "update_pr", "--update-pr --rewrite"),
    ):
        if args[option] and not args[required_option]:
            flag, required_flag = (name.replace("_", "-") for name in (option, required_option))
            raise UsageError(f"--{flag} needs --{required_flag}", f"for example: mngr tmr integrate {example}")
    if args["pr"] and args["update_pr"]:
        raise UsageError(
            "--pr and --update-pr cannot be combined",
            "open a pull request with --pr, or update the open one with --update-pr",
        )
    if args["conflict_rounds"] < 0:
        raise UsageError(
            "--conflict-rounds must be at least 0", "to ask no agent, use 0: mngr tmr integrate --conflict-rounds 0"
        )
    if args["integrator"] is not None:
        cli.context.get_kind(args["integrator"])
    if args["update_pr"]:
        from mngr.tmr.deliver.branch import check_remote

        check_remote(cli.context.local_host, run_dir)
    change_isolation(run_dir, args["isolation"])
    integration = integrate_run(cli, run_dir, _build_order(run_dir, args))
    if cli.format == "jsonl":
        render.render_item(cli, encode(integration), "")
    if args["pr"] or args["update_pr"]:
        _publish_branch(cli, run_dir, integration, args)
    return compute_exit_code(integration)


def _parse_report_url(text: str | None) -> str | None:
    """Return the URL without a trailing slash; raise UsageError unless a pull request can link to it."""
    import re

    if text is None:
        return None
    if not re.fullmatch(r"https?://[A-Za-z0-9._~:/?#@!$&'*+,;=%-]+", text):
        raise UsageError(
            f"--report-url: {text!r} is not a web address", "for example: --report-url https://ci.example/report"
        )
    return text.removesuffix("index.html").rstrip("/")


def _build_order(run_dir: RunDir, args: Args) -> IntegrateRequest:
    """Return the integration request that the command line describes."""
    from mngr.tmr.integrate.integration_request import IntegrateRequest
    from mngr.tmr.run_plan import load_plan

    return IntegrateRequest(
        without=args["without"] or [],
        reason=args["reason"] or "",
        withdrawn=args["with"] or [],
        only=args["only"],
        onto=args["onto"],
        agent=args["integrator"] or load_plan(run_dir).integrator,
        rounds=args["conflict_rounds"],
        conflict_timeout=args["conflict_timeout"],
        is_full_verify=args["verify"] == "full",
        is_append_only=args["update_pr"] and not args["rewrite"],
        report_url=_parse_report_url(args["report_url"]),
    )


def integrate_run(cli: Cli, run_dir: RunDir, request: IntegrateRequest) -> Integration:
    """Integrate a run, write its report, print the result and return it."""
    from mngr.base.json_structs import encode
    from mngr.tmr.changes.integration_record import Integration, find_integration
    from mngr.tmr.integrate.integrate import integrate
    from mngr.web.report.report import write_report

    previous = find_integration(run_dir) or Integration()
    with offer_isolation_off(f"mngr tmr integrate {run_dir.name} --isolation off"):
        integration = integrate(cli.fleet, run_dir, request, cli.print_message)
    report_path = write_report(cli.context.local_host, run_dir)
    newly_failing = integration.list_regressions(previous)
    if cli.format == "jsonl":
        return integration
    lines = [format_integration(integration)]
    lines += [
        f"  {row.change} {strip_controls(row.title)}: {strip_controls(row.reason)}" for row in integration.excluded[:20]
    ]
    if len(integration.excluded) > 20:
        lines.append(f"  and {len(integration.excluded) - 20} more: mngr tmr changes {run_dir.name}")
    if integration.open:
        verb = "is" if integration.open == 1 else "are"
        lines.append(
            f"{format_count(integration.open, 'task')} {verb} not finished. When they are finished, run: mngr tmr integrate {run_dir.name}"
        )
    if newly_failing:
        lines.append(
            f"these tests passed on the previous branch and fail now: {', '.join(map(strip_controls, newly_failing[:5]))}"
            + (f" and {len(newly_failing) - 5} more" if len(newly_failing) > 5 else "")
        )
    lines += [
        f"regression: {strip_controls(row.test)}: {strip_controls(row.why)}" for row in integration.regressions[:10]
    ]
    log = f"git log --stat {integration.onto[:10]}..{integration.branch}; " if integration.delivered else ""
    lines.append(f"next: {log}{run_dir.path}/PR.md; {report_path}")
    render.render_item(cli, {**encode(integration), "newly_failing": newly_failing}, "\n".join(lines))
    return integration


def compute_exit_code(integration: Integration) -> int:
    """Return 0 when the integration is complete, else 4."""
    return 0 if integration.is_complete else 4


def _publish_branch(cli: Cli, run_dir: RunDir, integration: Integration, args: Args) -> None:
    """Push the branch and open or update its pull request; print the commands if that is not possible."""
    import os

    from mngr.host import git
    from mngr.tmr.changes.integration_record import PushedBranch, save_integration
    from mngr.tmr.deliver.forge import get_base_branch, open_pull_request, update_pull_request
    from mngr.tmr.deliver.pull_request_text import read_title

    if integration.delivered is None or integration.verdict == "red":
        raise MngrError(
            "nothing was pushed, because there is no branch without regressions",
            f"see why: mngr tmr changes {run_dir.name}",
        )
    local_host, path = cli.context.local_host, os.path.join(run_dir.path, "PR.md")
    if args["pr"]:
        base = get_base_branch(local_host, run_dir.root, integration.onto_ref)
        result = open_pull_request(local_host, run_dir.root, integration.branch, base, read_title(path), path)
    else:
        remote_ref = f"refs/remotes/origin/{integration.branch}"
        old_head = git.find_commit(local_host, run_dir.root, remote_ref, git.SAFE_GIT) if args["rewrite"] else None
        result = update_pull_request(
            local_host, run_dir.root, integration.branch, read_title(path), path, rewrite=old_head or ""
        )
    if not result.commands:
        pushed = PushedBranch(commit=integration.delivered, commits=integration.commits)
        save_integration(run_dir, integration.replace(pushed=pushed))
    commands = [] if result.url else result.commands
    for line in (result.url, result.note, *commands):
        if line:
            cli.print_message(line)
