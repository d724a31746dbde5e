"""Finds the changes that a user's word refers to, and the changes that depend on them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from mngr.base.errors import MngrError, NotFound, suggest_closest
from mngr.tmr.changes.collect_changes import Change
from mngr.tmr.changes.integration_record import BranchCommit, EditTrace, ExclusionRequest
from mngr.tmr.commits import clean_untrusted_text

_MIN_COMMIT_DIGITS = 6  # digits of a commit that a user must give
_MAX_CANDIDATES = 5  # meanings of an ambiguous word that are listed
_HEX_DIGITS = re.compile(r"[0-9a-f]+")


def get_changes(changes: Sequence[Change], query: str, commits: Sequence[BranchCommit] = ()) -> list[Change]:
    """Return the changes that a task, a change id or a commit refers to.

    `commits` are the branch's commits from integration.json. Raises NotFound.
    Raises MngrError when the word is ambiguous, or names a task whose changes were all made by other tasks, too.
    """
    task_changes = _list_task_changes(changes, query)
    if task_changes:
        return _get_exclusive_changes(task_changes, query)
    lowered = query.lower()
    exact = [change for change in changes if lowered in (change.id, change.key)]
    if exact:
        return exact
    meanings = {f"change {change.id}": [change] for change in list_by_id_prefix(changes, lowered)}
    for sha, matches in _match_commits(changes, lowered, commits).items():
        meanings[f"commit {sha[:12]}"] = matches
    if not meanings:
        raise NotFound(f"this run has no change, task or commit {query!r}", _suggest_nearest(changes, query))
    distinct_meanings = {tuple(_list_ids(matches)) for matches in meanings.values()}
    if len(distinct_meanings) > 1:
        candidates = ", ".join(list(meanings)[:_MAX_CANDIDATES])
        hidden_count = len(meanings) - _MAX_CANDIDATES
        rest = f" and {hidden_count} more" if hidden_count > 0 else ""
        raise MngrError(f"{query!r} is ambiguous: {candidates}{rest}", "give more digits of the change's id")
    return next(iter(meanings.values()))


def _get_exclusive_changes(task_changes: Sequence[Change], task: str) -> list[Change]:
    """Return those of a task's changes that no other task made. Raise MngrError when there are none."""
    exclusive = [change for change in task_changes if len(change.made_by) == 1]
    if not exclusive:
        ids = ", ".join(_list_ids(task_changes))
        raise MngrError(f"other tasks also made every change of {task}", f"name a change instead of the task: {ids}")
    return exclusive


def list_by_id_prefix(changes: Sequence[Change], prefix: str) -> list[Change]:
    """Return the changes whose key begins with the prefix, which may be longer than an id."""
    return [change for change in changes if prefix and change.key.startswith(prefix.lower())]


def list_shared_changes(changes: Sequence[Change], query: str) -> list[Change]:
    """Return the changes of a task that other tasks made, too; empty when the word is not a task.

    These changes stay when the task is excluded.
    """
    return [change for change in _list_task_changes(changes, query) if len(change.made_by) > 1]


def make_exclusion_request(query: str, changes: Sequence[Change], reason: str) -> ExclusionRequest:
    """Return the record of a user's request to exclude changes."""
    traces: dict[str, EditTrace | None] = {change.key: _make_trace(change) for change in changes}
    return ExclusionRequest(what=query, keys=list(traces), reason=reason, traces=traces)


def _make_trace(change: Change) -> EditTrace:
    return EditTrace(kind=change.kind, paths=change.paths, commits=change.agent_commits)


def refresh_exclusion_request(request: ExclusionRequest, changes: Sequence[Change]) -> ExclusionRequest:
    """Return an exclusion request with the current keys of its changes.

    An edit gets another key when a later task makes the same edit or a part of it.
    """
    traces: dict[str, EditTrace | None] = {}
    for key in request.keys:
        trace = request.traces.get(key)
        traces |= dict.fromkeys(_list_current_keys(key, trace, changes), trace)
    return request.replace(keys=list(traces), traces=traces)


def _list_current_keys(key: str, trace: EditTrace | None, changes: Sequence[Change]) -> list[str]:
    """Return the keys that a recorded edit has now, or its old key if it does not exist now."""
    if trace is None or any(change.key == key for change in changes):
        return [key]
    return [change.key for change in changes if _is_same_edit(change, trace)] or [key]


def _is_same_edit(change: Change, trace: EditTrace) -> bool:
    """True when a change has the kind, a commit and a path of the recorded edit."""
    has_commit = not set(change.agent_commits).isdisjoint(trace.commits)
    has_path = not set(change.paths).isdisjoint(trace.paths)
    return change.kind == trace.kind and has_commit and has_path


def list_dependents(changes: Sequence[Change], ids: Iterable[str]) -> list[tuple[Change, str]]:
    """Return the changes that need the excluded ones, directly or not, each with the reason."""
    excluded = set(ids)
    titles = {change.id: change.title for change in changes}
    dependents: list[tuple[Change, str]] = []
    while True:
        remaining = [change for change in changes if change.id not in excluded]
        newly_excluded = [change for change in remaining if not excluded.isdisjoint(change.needs)]
        if not newly_excluded:
            return dependents
        for change in newly_excluded:
            needs = sorted(excluded.intersection(change.needs))
            needed = ", ".join(f"{name} ({titles[name]})" if name in titles else name for name in needs)
            dependents.append((change, f"it needs {needed}"))
        excluded.update(change.id for change in newly_excluded)


# Interpret a word


def _list_task_changes(changes: Sequence[Change], task: str) -> list[Change]:
    titles = (task, clean_untrusted_text.clean_line(task))
    return [
        change for change in changes if any(maker.task == task or maker.title in titles for maker in change.made_by)
    ]


def _match_commits(changes: Sequence[Change], prefix: str, commits: Sequence[BranchCommit]) -> dict[str, list[Change]]:
    """Return the commits that begin with a word, with their changes.

    The commits of the branch and of agents come first. Claimed commits count only when no other commit matches.
    """
    if len(prefix) < _MIN_COMMIT_DIGITS or not _HEX_DIGITS.fullmatch(prefix):
        return {}
    by_id = {change.id: change for change in changes}
    matches: dict[str, list[Change]] = {}
    for row in commits:
        if row.commit.startswith(prefix):
            matches[row.commit] = [by_id[name] for name in row.changes if name in by_id]
    own_commits = [(sha, change) for change in changes for sha in {change.commit, *change.agent_commits}]
    for sha, change in own_commits:
        if sha.startswith(prefix):
            matches.setdefault(sha, []).append(change)
    if matches:
        return matches
    claimed = [(sha, change) for change in changes for sha in {author.claimed_commit for author in change.made_by}]
    for sha, change in claimed:
        if sha.startswith(prefix):
            matches.setdefault(sha, []).append(change)
    return matches


def _list_ids(changes: Sequence[Change]) -> list[str]:
    return [change.id for change in changes]


def _suggest_nearest(changes: Sequence[Change], query: str) -> str:
    makers = [maker for change in changes for maker in change.made_by]
    names = [*_list_ids(changes), *(maker.task for maker in makers), *(maker.title for maker in makers)]
    return suggest_closest(query, list(dict.fromkeys(names))) or "list them: mngr tmr changes"
