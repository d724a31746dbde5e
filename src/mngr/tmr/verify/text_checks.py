"""Checks the text of an edit before anything of it is run: the files that it touches and the tests that it weakens."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from mngr.tmr.finding import Finding
from mngr.tmr.prepare.root_causes import is_test_code, is_test_file
from mngr.tmr.runners.test_run import TestFunction
from mngr.tmr.verify.commit_diffs import ClaimedCommit
from mngr.tmr.verify.rules.changed_file import ChangedFile
from mngr.tmr.verify.rules.harness_code import list_harness_changes, list_pytest_settings_changes
from mngr.tmr.verify.rules.ignored_errors import list_ignored_errors
from mngr.tmr.verify.rules.path_policy import PathPolicy, check_paths, get_path_rule
from mngr.tmr.verify.rules.test_detection import list_test_detections
from mngr.tmr.verify.rules.weakened_tests import list_weakenings_of_file

_KIND_BY_FILE_TYPE = {
    "test": "FIX_TEST",
    "conftest": "FIX_TEST",
    "doc": "FIX_DOC",
    "tutorial": "FIX_TUTORIAL",
}
_HUMAN_RULE_NAMES = ("startup", "conftest", "ci", "lock", "config", "setup", "docstring", "block", "deleted")
_HUMAN_RULES = {f"policy-{name}" for name in _HUMAN_RULE_NAMES}


def check_policy(
    commits: Sequence[ClaimedCommit],
    changes: Sequence[ChangedFile],
    policy: PathPolicy,
    *,
    is_shared: bool = False,
    is_claim: bool = True,
) -> list[Finding]:
    """Return each finding once: every commit is checked by the rules for its kind.

    For an edit without a claim, the findings about things that people may do are notes.
    """
    findings: dict[tuple[str, str, int], Finding] = {}
    for kind, kind_changes in [(commit.kind, commit.changes) for commit in commits] or [("", list(changes))]:
        for finding in (
            check_paths(kind_changes, kind, policy, shared=is_shared)
            if kind
            else _check_without_kind(kind_changes, policy, is_shared, is_claim)
        ):
            findings.setdefault((finding.rule, finding.path, finding.line), finding)
    for finding in (finding for change in changes for finding in list_pytest_settings_changes(change)):
        level = finding.level if is_claim else "note"
        findings.setdefault((finding.rule, finding.path, finding.line), finding.replace(level=level))
    return list(findings.values())


def _check_without_kind(
    changes: Sequence[ChangedFile], policy: PathPolicy, is_shared: bool, is_claim: bool
) -> list[Finding]:
    """Return the findings for each file, as if its commit had the kind that fits the file."""
    findings: list[Finding] = []
    for change in changes:
        kind = _KIND_BY_FILE_TYPE.get(get_path_rule(change.path, policy).name, "FIX_IMPL")
        findings += check_paths([change], kind, policy, shared=is_shared)
    if is_claim:
        return findings
    return [finding.replace(level="note") if finding.rule in _HUMAN_RULES else finding for finding in findings]


def list_weakenings(changes: Sequence[ChangedFile], test: TestFunction | None = None) -> list[Finding]:
    """Return how an edit weakens the tests, or one of them, by comparing each file's first and last state.

    Also return where it changes how tests run, and where the implementation looks for tests or ignores errors.
    """
    findings: list[Finding] = []
    for change in changes:
        if not change.path.endswith(".py"):
            continue
        if not is_test_code(change.path):
            findings += list_test_detections(change)
            findings += list_ignored_errors(change)
        elif test is None or change.path == test.path or not is_test_file(change.path):
            only_test = _get_name_in_file(test) if test is not None and change.path == test.path else ""
            findings += list_weakenings_of_file(change.old, change.new, change.path, only_test)
        findings += list_harness_changes(change)
    return findings


def _get_name_in_file(test: TestFunction) -> str:
    """Return the name of a test with its classes, without its file and parameters."""
    return test.id.partition(".py::")[2].partition("[")[0]


def find_changed_tests(change: ChangedFile) -> set[str] | None:
    """Return the names of a file's changed tests, or None for all when code that they share has changed."""
    if change.old is None or change.new is None:
        return None
    try:
        old, new = (dict(_iter_parts(ast.parse(text))) for text in (change.old, change.new))
    except (SyntaxError, ValueError):
        return None
    changed = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
    return None if any(not name.startswith("test") for name in changed) else changed


def _iter_parts(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each function of a file with its name, and the rest of the file under an empty name."""
    rest: list[str] = []
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, ast.dump(node)
        else:
            rest.append(ast.dump(node))
    yield "", "\n".join(rest)
