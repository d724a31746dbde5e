"""Compares the old and the new text of a test file by all rules about test code."""

from __future__ import annotations

from mngr.tmr.finding import Finding
from mngr.tmr.verify.rules.bypassed_checks import list_bypasses
from mngr.tmr.verify.rules.python_source import parse_source
from mngr.tmr.verify.rules.removed_checks import list_deleted_tests, list_removals
from mngr.tmr.verify.rules.test_source import TestSource
from mngr.tmr.verify.rules.vacuous_checks import list_vacuous_tests


def list_weakenings_of_file(old: str | None, new: str | None, path: str, only_test: str = "") -> list[Finding]:
    """Return what makes a test file, or one of its tests, weaker, refusals first. None: there is no such file."""
    old_tree, new_tree = parse_source(old), parse_source(new)
    try:
        before = TestSource(old_tree, only_test) if old_tree is not None else None
        if new is None:
            return list(list_deleted_tests(before, path)) if before is not None else []
        if new_tree is None:
            what = "the new file is not valid Python, so none of its tests run"
            return [Finding(rule="does-not-parse", level="refuse", path=path, what=what)]
        after = TestSource(new_tree, only_test)
        findings = [*list_bypasses(before, after, path), *list_vacuous_tests(before, after, path)]
        if before is not None:
            findings += list_removals(before, after, path)
    except RecursionError:
        return [Finding(rule="too-deep", level="refuse", path=path, what="the file is nested too deeply to compare")]
    return sorted(findings, key=lambda finding: (finding.level != "refuse", finding.line))
