"""What the text of an edit says, before anything of it is run: which files it touches, and what it takes from tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from mngr.tmr.cleanroom.test_run import TestFunction
from mngr.tmr.finding import Finding
from mngr.tmr.prepare.root_causes import is_test_code, is_test_file
from mngr.tmr.verify.edits import ClaimedCommit
from mngr.tmr.verify.legacy.guard import Contract, weakened
from mngr.tmr.verify.legacy.policy import Change, Policy, offences, sort_of
from mngr.tutorial.citations import parse_tests

_KIND_BY_FILE_TYPE = {
    "test": "FIX_TEST",
    "conftest": "FIX_TEST",
    "doc": "FIX_DOC",
    "tutorial": "FIX_TUTORIAL",
}
_HUMAN_RULE_NAMES = ("startup", "conftest", "ci", "lock", "config", "docstring", "block", "deleted")
_HUMAN_RULES = {f"policy-{name}" for name in _HUMAN_RULE_NAMES}


def check_policy(
    edits: Sequence[ClaimedCommit],
    whole: Sequence[Change],
    policy: Policy,
    *,
    is_shared: bool = False,
    is_claim: bool = True,
) -> list[Finding]:
    """Each commit by the rules for its kind, each finding once. Where nobody asked for kinds, what people may do is a note."""
    found: dict[tuple[str, str, int], Finding] = {}
    for kind, some in [(edit.kind, edit.changes) for edit in edits] or [("", list(whole))]:
        for one in (
            offences(some, kind, policy, shared=is_shared)
            if kind
            else _check_without_kind(some, policy, is_shared, is_claim)
        ):
            found.setdefault((one.rule, one.path, one.line), one)
    return list(found.values())


def _check_without_kind(some: Sequence[Change], policy: Policy, is_shared: bool, is_claim: bool) -> list[Finding]:
    """Each file as if the commit were of the kind for it."""
    found: list[Finding] = []
    for change in some:
        kind = _KIND_BY_FILE_TYPE.get(sort_of(change.path, policy).name, "FIX_IMPL")
        found += offences([change], kind, policy, shared=is_shared)
    if is_claim:
        return found
    return [one.replace(level="note") if one.rule in _HUMAN_RULES else one for one in found]


def list_weakenings(whole: Sequence[Change], own: TestFunction | None = None) -> list[Finding]:
    """What an edit takes from the tests, or from one of them: file by file, from the first state to the last."""
    found: list[Finding] = []
    for change in whole:
        if not is_test_code(change.path) or not change.path.endswith(".py"):
            continue
        if own is not None and change.path != own.path and is_test_file(change.path):
            continue
        contract = Contract(docs=_map_promises(change))
        wanted = [own.id] if own is not None and change.path == own.path else []
        found += weakened(change.old, change.new, change.path, contract=contract, tests=wanted)
    return found


def _map_promises(change: Change) -> dict[str, str]:
    """What the tests of a file promised before the edit: their docstrings, and the blocks that they cite."""
    if change.old is None:
        return {}
    found: dict[str, str] = {}
    try:
        tree = ast.parse(change.old)
    except (SyntaxError, ValueError):
        return {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found[node.name] = ast.get_docstring(node) or ""
    for citation in parse_tests(change.old.encode("utf-8", "replace"), change.path).citations:
        name = citation.test.rpartition("::")[2]
        found[name] = f"{found.get(name, '')}\n{citation.text}".strip()
    return found


def find_changed_tests(change: Change) -> set[str] | None:
    """The tests of a file that say something else than before; None: all, for something that they share does."""
    if change.old is None or change.new is None:
        return None
    try:
        old, new = (dict(_iter_parts(ast.parse(text))) for text in (change.old, change.new))
    except (SyntaxError, ValueError):
        return None
    differ = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
    return None if any(not name.startswith("test") for name in differ) else differ


def _iter_parts(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Each function of a file by name, and the rest as one."""
    rest: list[str] = []
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, ast.dump(node)
        else:
            rest.append(ast.dump(node))
    yield "", "\n".join(rest)
