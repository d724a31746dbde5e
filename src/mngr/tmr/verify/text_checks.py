"""Checks the text of an edit before anything of it is run: the files that it touches and the tests that it weakens."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from mngr.tmr.finding import Finding
from mngr.tmr.prepare.root_causes import is_test_code, is_test_file
from mngr.tmr.runners.test_run import TestFunction
from mngr.tmr.verify.commit_diffs import ClaimedCommit
from mngr.tmr.verify.legacy.guard import Contract, weakened
from mngr.tmr.verify.legacy.policy import Change, Policy, offences, sort_of
from mngr.tutorial.citations import parse_tests

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
    changes: Sequence[Change],
    policy: Policy,
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
            offences(kind_changes, kind, policy, shared=is_shared)
            if kind
            else _check_without_kind(kind_changes, policy, is_shared, is_claim)
        ):
            findings.setdefault((finding.rule, finding.path, finding.line), finding)
    return list(findings.values())


def _check_without_kind(changes: Sequence[Change], policy: Policy, is_shared: bool, is_claim: bool) -> list[Finding]:
    """Return the findings for each file, as if its commit had the kind that fits the file."""
    findings: list[Finding] = []
    for change in changes:
        kind = _KIND_BY_FILE_TYPE.get(sort_of(change.path, policy).name, "FIX_IMPL")
        findings += offences([change], kind, policy, shared=is_shared)
    if is_claim:
        return findings
    return [finding.replace(level="note") if finding.rule in _HUMAN_RULES else finding for finding in findings]


def list_weakenings(changes: Sequence[Change], test: TestFunction | None = None) -> list[Finding]:
    """Return how an edit weakens the tests, or one of them, by comparing each file's first and last state."""
    findings: list[Finding] = []
    for change in changes:
        if not is_test_code(change.path) or not change.path.endswith(".py"):
            continue
        if test is not None and change.path != test.path and is_test_file(change.path):
            continue
        contract = Contract(docs=_map_promises(change))
        test_ids = [test.id] if test is not None and change.path == test.path else []
        findings += weakened(change.old, change.new, change.path, contract=contract, tests=test_ids)
    return findings


def _map_promises(change: Change) -> dict[str, str]:
    """Return what the tests of a file promised before the edit: their docstrings and cited blocks, by test name."""
    if change.old is None:
        return {}
    promises: dict[str, str] = {}
    try:
        tree = ast.parse(change.old)
    except (SyntaxError, ValueError):
        return {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            promises[node.name] = ast.get_docstring(node) or ""
    for citation in parse_tests(change.old.encode("utf-8", "replace"), change.path).citations:
        name = citation.test.rpartition("::")[2]
        promises[name] = f"{promises.get(name, '')}\n{citation.text}".strip()
    return promises


def find_changed_tests(change: Change) -> set[str] | None:
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
