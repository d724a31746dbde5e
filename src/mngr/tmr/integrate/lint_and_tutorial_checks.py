"""Checks of a tree beside its tests: the project's lint, and the agreement of tutorial and tests."""

from __future__ import annotations

from collections.abc import Callable

from mngr.host.protocol import Host
from mngr.tmr.cleanroom.clean_room import CleanRoom
from mngr.tmr.commits.trees import read_files
from mngr.tmr.prepare.root_causes import is_test_file
from mngr.tutorial.blocks import parse_script
from mngr.tutorial.check import compare_with_tests
from mngr.tutorial.citations import Citations, parse_tests

TreeCheck = Callable[[str, CleanRoom], tuple[bool, str]]


_TIMEOUT = 1800.0
_MAX_OUTPUT = 2000  # characters of a check's output
_MAX_FILE_BYTES = 1 << 22  # larger files are not read


def make_lint_check(command: str) -> TreeCheck:
    """Return a check that runs the project's lint command in the clean room."""

    def check(commit: str, clean_room: CleanRoom) -> tuple[bool, str]:
        outcome = clean_room.run(["sh", "-c", command], timeout=_TIMEOUT)
        output = (outcome.out + outcome.err).strip()[-_MAX_OUTPUT:]
        return outcome.code == 0, output if outcome.code else ""

    return check


def make_tutorial_check(local: Host, repo: str, file: str, tests: str) -> TreeCheck:
    """Return a check that does what `mngr tutorial check` does for a commit. It runs nothing."""

    def check(commit: str, clean_room: CleanRoom) -> tuple[bool, str]:
        files = read_files(local, repo, commit, [file, tests], _MAX_FILE_BYTES)
        script = files.pop(file, b"").decode("utf-8", "replace")
        parsed = [parse_tests(data, path) for path, data in files.items() if is_test_file(path)]
        citations = Citations(
            citations=[citation for file_citations in parsed for citation in file_citations.citations],
            tests=[test for file_citations in parsed for test in file_citations.tests],
            problems=[problem for file_citations in parsed for problem in file_citations.problems],
        )
        findings = [
            finding
            for finding in compare_with_tests(parse_script(script, file), citations).findings
            if not finding.is_warning
        ]
        output = "\n".join(f"{finding.path}:{finding.line}: {finding.message}" for finding in findings)
        return not findings, output[:_MAX_OUTPUT]

    return check
