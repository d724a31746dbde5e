"""The command `mngr tmr verify`."""

from __future__ import annotations

import json
import os

from mngr.base.errors import MngrError, UsageError, describe_file_error
from mngr.base.untrusted_json import parse_json
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_spec import Argument, CommandSpec, Option, place_below
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.runs.run_options import (
    ISOLATION_OPTION,
    build_pytest_command,
    format_host_suffix,
    get_project_root,
    to_root_path,
)
from mngr.cli.runs.tmr.shared import build_unisolated_command, offer_isolation_off

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args
    from mngr.tmr.cleanroom.clean_rooms import CleanRoomOptions
    from mngr.tmr.finding import Finding
    from mngr.tmr.verify.receipt import Receipt
    from mngr.tmr.verify.verify_branch import BranchReceipts
    from mngr.tmr.verify.verify_request import VerifyOptions

_SOME_FAILED_CODE = 4  # The exit code when some of several failed.
COMMAND = CommandSpec(
    name="tmr verify",
    summary=COMMANDS["tmr verify"][1],
    description=(
        "mngr checks out the branch in a clean room, which is a fresh isolated workspace. There, it runs each TEST, "
        "or each test that the branch changes if you do not name any. It also looks for edits that weaken a test. "
        "Each test gets a verdict:\n"
        "  confirmed   the test passed every time, and nothing shows that it was weakened\n"
        "  refuted     the test fails, or it passes because it was weakened,\n"
        "              or the branch changes files that it must not change\n"
        "  flaky       the test passed only sometimes\n"
        "  unverified  mngr could not run the test, the branch changes the set-up,\n"
        "              or the tests did not run the branch's own code\n"
        "mngr uses the settings from your checkout. It runs the set-up command (project.setup) with the files of the "
        "base commit, not with files from the branch. If the branch fixes the program, mngr also runs the test "
        "without this fix, and the test must fail. With --verify full, mngr also runs each test with a stub that does "
        "nothing instead of the program, and with deliberate faults in the code that the test runs. The new test must "
        "detect every fault that the old test detected. With --receipt, mngr runs the tests of an earlier receipt "
        "again and compares the results. It takes the commands from your settings and options, not from the receipt.\n"
        "The exit code is 0 if all tests are confirmed, or if the results are the same as in the receipt. In all "
        "other cases, it is 4."
    ),
    arguments=(
        Argument(name="REF", help="The branch or commit to verify", required=False),
        Argument(
            name="TEST",
            help="The tests to run, written as for pytest (default: the tests that the branch changes)",
            is_repeatable=True,
            required=False,
            complete="files",
        ),
    ),
    options=(
        *place_below(
            "What to verify",
            Option(
                flags=("--base",),
                metavar="REF",
                help="Compare the branch with the commit REF (default: the last common commit with your branch, its "
                "upstream or main)",
            ),
            Option(
                flags=("--receipt",),
                metavar="FILE",
                help="Run the tests of the receipt in FILE again, and compare the results",
            ),
        ),
        *place_below(
            "Tests",
            Option(
                flags=("--verify",),
                metavar="LEVEL",
                choices=("quick", "full"),
                default="quick",
                help="Choose how thoroughly mngr checks the branch: quick, or full for more experiments with each test",
            ),
            Option(flags=("--runs",), metavar="K", kind="int", default=3, help="Run each test K times"),
            Option(
                flags=("--seed",),
                metavar="N",
                kind="int",
                default=0,
                help="Use N as the random seed for the order of the tests and for the faults that mngr adds to the code "
                "(default: 0)",
            ),
            Option(
                flags=("--pytest",), metavar="CMD", help="Use CMD to run pytest (default: the setting project.pytest)"
            ),
            Option(
                flags=("--test-timeout",),
                metavar="TIME",
                kind="length",
                default=600.0,
                help="Stop a test that runs longer than TIME",
            ),
            Option(
                flags=("--on",), metavar="ADDRESS", help="Run the tests on the host ADDRESS (default: this machine)"
            ),
            ISOLATION_OPTION,
            Option(
                flags=("--trust-setup",),
                help="Run the set-up command (project.setup) with the branch's files, even if the branch changes the "
                "files that this command uses",
            ),
            Option(flags=("--fresh",), help="Run each test again, even if mngr has stored its result"),
        ),
        *place_below(
            "Output",
            Option(
                flags=("--junit",),
                metavar="FILE",
                help="Write the results to FILE in the JUnit format, which CI systems can read",
            ),
            Option(flags=("--output",), metavar="DIR", help="Write one receipt for each test to the directory DIR"),
        ),
    ),
    trailing=Argument(name="PYTEST ARGS", help="The arguments that mngr passes to pytest"),
    examples=(
        (
            "mngr tmr verify feature",
            "Check that the tests of the branch feature pass and that the branch does not weaken them",
        ),
        ("mngr tmr verify HEAD --base origin/main --verify full --junit report.xml", "Verify in a CI job"),
        (
            "mngr tmr verify --receipt .mngr/runs/nightly/tasks/test-list-1a2b3c/receipt.json",
            "Run the tests of a receipt again",
        ),
    ),
)


def run(cli: Cli, args: Args) -> int:
    """Verify a branch or a receipt, print the result, and fail unless everything is confirmed."""
    with offer_isolation_off(build_unisolated_command(cli)):
        return _verify(cli, args)


def _verify(cli: Cli, args: Args) -> int:
    from mngr.base.json_structs import encode
    from mngr.tmr.cleanroom.clean_rooms import CleanRoomOptions
    from mngr.tmr.cleanroom.sandbox import parse_isolation, require_isolation
    from mngr.tmr.result_cache import ResultCache, get_cache_dir
    from mngr.tmr.verify.rules.path_policy import DEFAULT_POLICY, extend_policy
    from mngr.tmr.verify.verify_request import VerifyOptions

    root = get_project_root(cli)
    policy = extend_policy(DEFAULT_POLICY, cli.context.settings.get_table("policy"))
    pytest = build_pytest_command(cli, args)
    sandbox = parse_isolation(args["isolation"], pytest[0], cli.context.settings.get("sandbox.show") or [])
    room_options = CleanRoomOptions(on=format_host_suffix(args["on"]), sandbox=sandbox)
    if sandbox is not None:
        require_isolation(cli.context, room_options.on)
    options = VerifyOptions(
        pytest=pytest,
        args=args.rest or [],
        runs=args["runs"],
        timeout=args["test_timeout"],
        program=cli.context.settings.get("project.program"),
        level=args["verify"],
        seed=args["seed"],
        policy=policy,
        trusts_setup=args["trust_setup"],
    )
    if args["receipt"]:
        return _verify_again(cli, args, root, room_options, options)
    if not args["ref"]:
        raise UsageError(
            "mngr tmr verify needs a branch, a commit or --receipt FILE", "for example: mngr tmr verify HEAD"
        )
    if args["runs"] < 1:
        raise UsageError("--runs must be at least 1", "for example: --runs 3")
    from mngr.tmr.verify.verify_branch import BranchRequest, verify_branch

    paths = [to_root_path(cli, root, path) for path in args["test"] or []]
    result_cache = None if args["fresh"] else ResultCache(get_cache_dir(cli.context.home, root), "verify")

    def report_receipt(receipt: Receipt) -> None:
        if cli.format == "jsonl":
            print(render.format_json(encode(receipt)), flush=True)
        else:
            cli.print_message(terminal_text.join_lines(f"{receipt.test} {receipt.verdict.upper()}: {receipt.reason}"))

    branch = verify_branch(
        cli.fleet,
        root,
        BranchRequest(ref=args["ref"], base=args["base"], paths=paths),
        options,
        room_options,
        cache=result_cache,
        on_receipt=report_receipt,
    )
    if args["output"]:
        _write_receipts(cli.context.resolve_path(args["output"]), branch.receipts)
    if args["junit"]:
        with open(cli.context.resolve_path(args["junit"]), "w", encoding="utf-8") as file:
            file.write(format_junit(branch))
    if cli.format != "jsonl":
        fields = {
            "ref": branch.ref,
            "commit": branch.commit,
            "base": branch.base,
            "verdict": branch.verdict,
            "findings": encode(branch.findings),
        }
        render.render_rows(cli, "receipts", encode(branch.receipts), _format_branch(branch), **fields)
    return 0 if branch.verdict == "confirmed" else _SOME_FAILED_CODE


def _format_branch(branch: BranchReceipts) -> str:
    """Return the findings, and the verdicts as one line."""
    lines = [f"{format_location(finding)}{finding.level} {finding.rule}: {finding.what}" for finding in branch.findings]
    counts = {
        verdict: sum(receipt.verdict == verdict for receipt in branch.receipts)
        for verdict in ("confirmed", "refuted", "flaky", "unverified")
    }
    summary = ", ".join(f"{number} {verdict}" for verdict, number in counts.items() if number)
    seconds = sum(receipt.seconds for receipt in branch.receipts)
    lines.append(
        f"{branch.ref} since {branch.base[:10]}: {summary or 'nothing to run'}; {len(branch.findings)} findings, {seconds:.1f} s of tests"
    )
    return "\n".join(map(terminal_text.join_lines, lines))


def format_location(finding: Finding) -> str:
    """Return the location of a finding in a form that editors understand."""
    if finding.line:
        return f"{finding.path}:{finding.line} "
    return f"{finding.path} " if finding.path else ""


def _verify_again(cli: Cli, args: Args, root: str, room_options: CleanRoomOptions, options: VerifyOptions) -> int:
    """Verify the claim of a saved receipt again, and print the differences."""
    from mngr.base.json_structs import encode
    from mngr.tmr.verify.verify_branch import recheck_receipt

    path = cli.context.resolve_path(args["receipt"])
    try:
        with open(path, encoding="utf-8") as file:
            data = parse_json(file.read())
    except (OSError, ValueError) as error:
        raise MngrError(
            f"cannot read {args['receipt']}: {describe_file_error(error)}",
            "give the receipt.json of a task: mngr tmr verify --receipt FILE",
        ) from None
    recheck = recheck_receipt(cli.fleet, root, path, data, room_options, options)
    is_same = not recheck.differences
    human = (
        f"the result is the same: {recheck.after.verdict}, {recheck.after.reason}"
        if is_same
        else "\n".join(["the result differs:", *recheck.differences])
    )
    row = {
        "is_same": is_same,
        "differences": recheck.differences,
        "before": encode(recheck.before),
        "after": encode(recheck.after),
    }
    render.render_item(cli, row, terminal_text.strip_controls(human))
    return 0 if is_same else _SOME_FAILED_CODE


def _write_receipts(directory: str, receipts: list[Receipt]) -> None:
    """Write each receipt to a file in a directory."""
    from mngr.base.json_structs import encode
    from mngr.mapreduce.run_dir import make_slug

    os.makedirs(directory, exist_ok=True)
    for receipt in receipts:
        with open(os.path.join(directory, f"{make_slug(receipt.test)}.json"), "w", encoding="utf-8") as file:
            json.dump(encode(receipt), file, indent=1)


def format_junit(branch: BranchReceipts) -> str:
    """Return the receipts as JUnit XML, which CI systems read."""
    from xml.sax.saxutils import escape, quoteattr

    def clean(text: str) -> str:
        return terminal_text.strip_controls(text)

    failed = [receipt for receipt in branch.receipts if receipt.verdict != "confirmed"]
    rows = [f'<testsuite name="mngr tmr verify" tests="{len(branch.receipts)}" failures="{len(failed)}" errors="0">']
    for receipt in branch.receipts:
        path, _, name = receipt.test.partition("::")
        rows.append(
            f'<testcase classname={quoteattr(clean(path))} name={quoteattr(clean(name))} time="{receipt.seconds:.3f}">'
        )
        if receipt.verdict != "confirmed":
            rows.append(f"<failure type={quoteattr(receipt.verdict)} message={quoteattr(clean(receipt.reason))}/>")
        findings = "\n".join(
            f"{format_location(finding)}{finding.rule}: {finding.what}" for finding in receipt.all_findings
        )
        rows.append(f"<system-out>{escape(clean(findings))}</system-out></testcase>" if findings else "</testcase>")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + "\n".join([*rows, "</testsuite>"]) + "\n"
