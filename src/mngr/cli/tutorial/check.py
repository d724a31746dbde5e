"""The command `mngr tutorial check`."""

from __future__ import annotations

import sys

from mngr.base.errors import MngrError
from mngr.cli.framework import render, terminal_text
from mngr.cli.framework.command_spec import Argument, CommandSpec, Option
from mngr.cli.framework.command_table import COMMANDS
from mngr.cli.tutorial.blocks import FILE_ARGUMENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.cli.framework.cli_invocation import Cli
    from mngr.cli.framework.parse import Args
    from mngr.tutorial.check_citations import TutorialFinding, TutorialReport
    from mngr.tutorial.fix_citations import FixedCitation

TESTS_ARGUMENT = Argument(
    name="TESTS",
    help="A test file or a directory with tests (default: the setting tutorial.tests, or the directory tests)",
    required=False,
    complete="files",
)
_PLURALS = {
    "gap": "gaps",
    "stale": "stale",
    "orphan": "orphans",
    "duplicate": "duplicates",
    "unreadable": "unreadable",
}

COMMAND = CommandSpec(
    name="tutorial check",
    summary=COMMANDS["tutorial check"][1],
    description=(
        "A test cites a block if it contains a copy of the block's text, either in a call of "
        "e2e.write_tutorial_block(...) or in a docstring below the line `Tutorial block:`. The exit code is 0 if a "
        "test cites each block and each citation is the same as a block. If not, mngr lists these problems:\n"
        "  gap         no test cites this block\n"
        "  stale       the block has changed; mngr prints the difference\n"
        "  orphan      a test cites a text that is not similar to any block\n"
        "  unreadable  mngr cannot read a part of the script, a test file or a citation\n"
        "mngr also lists duplicate blocks, which do not change the exit code. It counts tests with the marker "
        "pytest.mark.observed separately, because nobody has reviewed them yet. With --format github, mngr prints "
        "annotations for a pull request on GitHub."
    ),
    arguments=(FILE_ARGUMENT, TESTS_ARGUMENT),
    options=(
        Option(
            flags=("--fix",),
            help="Replace a stale citation with the block's current text, if mngr can identify the block",
        ),
    ),
    examples=(
        ("mngr tutorial check", "Check this project's tutorial and tests"),
        (
            "mngr tutorial check docs/tour.sh tests/e2e --format json",
            "Check another tutorial, and print the result as JSON",
        ),
        ("mngr tutorial check --fix", "Correct stale citations"),
        ("mngr tutorial check --format github", "Mark the problems in a pull request, in a GitHub workflow"),
    ),
    formats=("github",),
)


def run(cli: Cli, args: Args) -> int:
    """Compare the script with the tests, correct citations with --fix, and fail if something is wrong."""
    from mngr.tutorial.check_citations import check_tutorial
    from mngr.tutorial.fix_citations import fix_citations
    from mngr.tutorial.paths import TutorialPaths

    paths = TutorialPaths(cli.context, args["file"], args["tests"])
    report = check_tutorial(paths)
    fixed: list[FixedCitation] = []
    if args["fix"] and report.stale:
        fixed = fix_citations(report.stale, paths.to_full_path)
        report = check_tutorial(paths)
    if cli.format == "github":
        cli.print_data("".join(_format_annotation(finding) for finding in report.findings))
    else:
        fields = {
            "ok": report.is_complete,
            "counts": report.counts,
            "blocks": [block.to_dict() for block in report.blocks],
            "fixed": [citation.to_dict() for citation in fixed],
        }
        rows = [finding.to_dict() for finding in report.findings]
        render.render_rows(cli, "findings", rows, _format_report(report, fixed), **fields)
    if not report.is_complete:
        sys.stdout.flush()  # The findings must appear before the error that sums them up.
        raise MngrError(_format_summary(report), _build_hint(report))
    return 0


def _format_report(report: TutorialReport, fixed: list[FixedCitation]) -> str:
    text = ""
    for citation in fixed:
        result = f"not rewritten: {citation.error}" if citation.error else "rewritten"
        text += f"{citation.path}:{citation.line}: {citation.test} {result}\n"
    for finding in report.findings:
        text += f"{finding.path}:{finding.line}: {finding.kind}: {finding.message}\n"
        text += finding.diff or ""
    counts = report.counts
    text += f"{counts['cited']} of {counts['blocks']} blocks are cited"
    text += f"; {counts['observed']} observed but not reviewed" if counts["observed"] else ""
    noun = "empty heading" if counts["blanks"] == 1 else "empty headings"
    text += f"; {counts['blanks']} {noun}" if counts["blanks"] else ""
    return terminal_text.strip_controls(text)


def _format_summary(report: TutorialReport) -> str:
    parts = [
        f"{count} {_PLURALS[kind] if count > 1 else kind}"
        for kind, count in report.counts.items()
        if count and kind in _PLURALS
    ]
    return f"{report.script.path} and its tests differ: {', '.join(parts)}"


def _build_hint(report: TutorialReport) -> str:
    counts = report.counts
    if counts["unreadable"]:
        return "correct the files that mngr cannot read, then run this command again"
    if any(not stale.finding.fix for stale in report.stale):
        return "read the differences, then rewrite the stale citations: mngr tutorial check --fix"
    if counts["gap"]:
        return "let an agent write the missing tests: mngr tutorial sync; or cite the blocks with e2e.write_tutorial_block(...)"
    return "correct the citations in the list above, then run this command again"


def _format_annotation(finding: TutorialFinding) -> str:
    """Return a finding as a workflow command for GitHub, escaped."""
    level = "warning" if finding.is_warning else "error"
    path = _escape_annotation(finding.path).replace(":", "%3A").replace(",", "%2C")
    message = finding.message + (f"\n{finding.diff}" if finding.diff else "")
    return f"::{level} file={path},line={finding.line},title={finding.kind}::{_escape_annotation(message.rstrip())}\n"


def _escape_annotation(text: str) -> str:
    return terminal_text.strip_controls(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))
