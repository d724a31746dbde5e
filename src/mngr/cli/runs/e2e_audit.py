"""The command `mngr e2e audit`."""

from __future__ import annotations

import os
import shlex

from mngr.base.errors import UsageError, suggest_closest
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_spec import Argument, CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.runs.run_options import build_pytest_command, get_project_root, to_root_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args
    from mngr.tmr.verify.audit.audit_in_checkout import AuditOptions, AuditReport
    from mngr.tmr.verify.audit.stub_audit import AuditGap, AuditResult

_SOME_FAILED_CODE = 4  # The exit code when some of several failed.
COMMAND = CommandSpec(
    name="e2e audit",
    summary=COMMANDS["e2e audit"][1],
    description=(
        "mngr runs each test once with the real program. Then it runs the test again with stubs, which are programs "
        "that mngr runs instead of the real one:\n"
        "  nop   every command does nothing, prints nothing and succeeds\n"
        "  help  every command prints the program's usage and succeeds\n"
        "  each  one command of the program does nothing; all others work\n"
        "  drop  one command does not receive one of its options\n"
        "A test that still passes with nop or help is called vacuous. If a test still passes with each or drop, the "
        "command or option is called unguarded, and mngr prints the line of the test that uses it. The stubs each and "
        "drop replace only the commands that the test cites; if the test does not cite any, they replace all its "
        "commands. mngr does not audit a test again if neither the test nor the program has changed.\n"
        "The tests run on this machine without a sandbox, so mngr first asks whether you trust the project; in a CI job, "
        "run mngr trust --yes before.\n"
        "The exit code is 4 if a test is vacuous or fails with the real program. With --strict, the exit code is also "
        "4 if a command or an option is unguarded."
    ),
    arguments=(
        Argument(
            name="TEST",
            help="The tests to audit, written as for pytest (default: the setting tutorial.tests, or the directory "
            "tests)",
            is_repeatable=True,
            required=False,
            complete="files",
        ),
    ),
    options=(
        Option(
            flags=("--program",),
            metavar="NAME",
            help="Replace the program NAME with stubs (default: the setting project.program, or the program that the "
            "project installs)",
        ),
        Option(flags=("--pytest",), metavar="CMD", help="Use CMD to run pytest (default: the setting project.pytest)"),
        Option(
            flags=("--modes",),
            metavar="A,B",
            default="nop,help,each,drop",
            help="Use only these kinds of stubs: nop, help, each or drop; separate several with commas (default: all)",
        ),
        Option(
            flags=("--changed-since",), metavar="REF", help="Audit only tests that have changed since the commit REF"
        ),
        Option(
            flags=("--sample",),
            metavar="N",
            kind="int",
            help="Audit N random tests; with --changed-since, also audit N random unchanged tests (default: all tests)",
        ),
        Option(
            flags=("--seed",),
            metavar="S",
            default="0",
            help="Use S as the random seed; the same seed chooses the same tests",
        ),
        Option(
            flags=("--within",),
            metavar="TIME",
            kind="length",
            help="Do not start any test after TIME, and print the number of tests that mngr did not run (default: no "
            "limit)",
        ),
        Option(
            flags=("--timeout",),
            metavar="TIME",
            kind="length",
            default=600.0,
            help="Stop a test that runs longer than TIME",
        ),
        Option(
            flags=("--jobs",),
            metavar="N",
            kind="int",
            help="Run N tests at the same time (default: the number of processors)",
        ),
        Option(flags=("--strict",), help="Exit with code 4 if a command or an option is unguarded"),
    ),
    trailing=Argument(name="PYTEST ARGS", help="The arguments that mngr passes to pytest"),
    examples=(
        ("mngr e2e audit", "Audit all tests of the tutorial with every stub"),
        ("mngr e2e audit tests/e2e/test_list.py --modes drop", "Find options that no test checks"),
        (
            "mngr e2e audit --changed-since main --sample 10 --modes nop,help",
            "Audit the tests that your branch changes, and ten others",
        ),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Audit the tests, print the gaps, and fail if a test would not notice a broken program."""
    from mngr.tmr.verify.audit.audit_in_checkout import audit_checkout

    root = get_project_root(cli)
    cli.context.require_project_trust(root, "mngr e2e audit")
    settings = cli.context.settings
    tutorial = str(settings.get("tutorial.file") or "tutorial.sh")

    def report_result(result: AuditResult, was_known: bool) -> None:
        if not was_known:
            cli.print_message(f"{result.outcome}: {result.test}{f': {result.why}' if result.why else ''}")

    report = audit_checkout(
        cli.context.local_host, root, _build_audit_request(cli, args, root), tutorial, report_result
    )
    gaps = [gap for result in report.audited for gap in result.holes]
    counts = {
        "tests": len(report.audited),
        "vacuous": report.count("vacuous"),
        "failing": report.count("failing"),
        "unclear": report.count("unclear"),
        "left": report.count("left"),
        "no_command": report.count("no-command"),
        "unguarded_commands": sum(gap.rule == "unguarded-command" for gap in gaps),
        "unguarded_options": sum(gap.rule == "unguarded-option" for gap in gaps),
        "cached": report.cached,
    }
    tests = [
        {
            "test": result.test,
            "outcome": result.outcome,
            "why": result.why,
            "runs": result.runs,
            "seconds": round(result.seconds, 3),
        }
        for result in report.audited
    ]
    failure_labels = {"failing": "fails without any stub", "unclear": "the result is unclear"}
    failing = [
        f"{result.test}: {failure_labels[result.outcome]}: {result.why}\n"
        for result in report.audited
        if result.outcome in failure_labels
    ]
    text = "".join([*failing, *(f"{_format_hole(gap)}\n" for gap in gaps)]) + _format_summary(report, counts)
    rows = [gap.to_dict() for gap in gaps]
    render.render_rows(
        cli,
        "findings",
        rows,
        terminal_text.strip_controls(text),
        program=report.program,
        counts=counts,
        tests=tests,
    )
    is_bad = counts["vacuous"] or counts["failing"] or (args["strict"] and gaps)
    return _SOME_FAILED_CODE if is_bad else 0


def _format_hole(gap: AuditGap) -> str:
    return f"{gap.path}:{gap.line}: {gap.rule.replace('-', ' ')} ({gap.mode}): {gap.what}"


def _format_summary(report: AuditReport, counts: dict[str, int]) -> str:
    """Return the counts as one line."""
    parts = [f"{counts['tests']} of {report.test_count} tests", f"{counts['vacuous']} vacuous"]
    for key in ("command", "option"):
        if count := counts[f"unguarded_{key}s"]:
            parts.append(f"{count} {key}{'s' if count > 1 else ''} unguarded")
    for key, label in (
        ("failing", "failing without any stub"),
        ("unclear", "unclear"),
        ("no_command", f"without {report.program}"),
        ("left", "not audited for lack of time"),
        ("cached", "reused from an earlier audit"),
    ):
        if counts[key]:
            parts.append(f"{counts[key]} {label}")
    return f"{parts[0]}: {', '.join(parts[1:])}"


def _build_audit_request(cli: Cli, args: Args, root: str) -> AuditOptions:
    """Return the audit options that the command line describes; raise UsageError for wrong ones."""
    from mngr.tmr.verify.audit.audit_in_checkout import AuditOptions
    from mngr.tmr.verify.audit.stub_audit import MODES

    settings = cli.context.settings
    modes = [mode.strip() for mode in args["modes"].split(",") if mode.strip()]
    for mode in modes:
        if mode not in MODES:
            raise UsageError(
                f"there is no mode {mode!r}",
                suggest_closest(mode, list(MODES)) or f"modes: {', '.join(MODES)}",
            )
    if not modes:
        raise UsageError("--modes names no mode", f"for example: --modes {','.join(MODES)}")
    for key in ("sample", "jobs"):
        if args[key] is not None and args[key] < (key == "jobs"):
            raise UsageError(f"--{key} must be at least {1 if key == 'jobs' else 0}", f"for example: --{key} 4")
    program = args["program"] or settings.get("project.program")
    try:
        if program is not None and not shlex.split(program):
            raise ValueError("it is empty")
    except ValueError as error:
        raise UsageError(f"--program is not a valid command: {error}", "for example: --program mngr") from None
    default_path = settings.get("tutorial.tests") or "tests"
    paths = [to_root_path(cli, root, path) for path in args["test"] or [os.path.join(root, default_path)]]
    return AuditOptions(
        pytest=build_pytest_command(cli, args),
        paths=paths,
        args=args.rest or [],
        program=program,
        modes=modes,
        timeout=args["timeout"],
        jobs=args["jobs"],
        changed_since=args["changed_since"],
        sample=args["sample"],
        seed=args["seed"],
        time_limit=args["within"],
    )
