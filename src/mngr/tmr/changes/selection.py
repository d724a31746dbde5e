"""Finds the changes that a user's word refers to, and the changes that depend on them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mngr.base.errors import MngrError, NotFound, suggest_closest
from mngr.tmr.changes.changes import Change
from mngr.tmr.commits import untrusted

_MIN_COMMIT_DIGITS = 6  # digits of a commit that a user must give
_MAX_CANDIDATES = 5  # meanings of an ambiguous word that are listed
_HEX_DIGITS = re.compile(r"[0-9a-f]+")


def get_changes(changes: Sequence[Change], query: str, commits: Sequence[Mapping[str, Any]] = ()) -> list[Change]:
    """Return the changes that a task, a change id or a commit refers to.

    `commits` are the branch's commits from integration.json. Raises NotFound.
    Raises MngrError when the word is ambiguous, or names a task whose changes were all made by other tasks, too.
    """
    if task_changes := _list_task_changes(changes, query):
        exclusive = [change for change in task_changes if len(change.made_by) == 1]
        if exclusive:
            return exclusive
        ids = ", ".join(change.id for change in task_changes)
        raise MngrError(f"others made all that {query} made, too", f"name what is meant: {ids}")
    lowered = query.lower()
    exact = [change for change in changes if lowered in (change.id, change.key)]
    if exact:
        return exact
    meanings = {f"change {change.id}": [change] for change in list_by_id_prefix(changes, lowered)}
    for sha, matches in _match_commits(changes, lowered, commits).items():
        meanings[f"commit {sha[:12]}"] = matches
    if not meanings:
        raise NotFound(f"{query!r} is no change, no task and no commit of this run", _suggest_nearest(changes, query))
    (first, *others) = meanings.values()
    if any(_list_ids(other) != _list_ids(first) for other in others):
        rest = f" and {len(meanings) - _MAX_CANDIDATES} more" if len(meanings) > _MAX_CANDIDATES else ""
        raise MngrError(
            f"{query!r} may be {', '.join(list(meanings)[:_MAX_CANDIDATES])}{rest}", "give more of its digits"
        )
    return first


def list_by_id_prefix(changes: Sequence[Change], prefix: str) -> list[Change]:
    """Return the changes whose key begins with the prefix, which may be longer than an id."""
    return [change for change in changes if prefix and change.key.startswith(prefix.lower())]


def list_shared_changes(changes: Sequence[Change], query: str) -> list[Change]:
    """Return the changes of a task that other tasks made, too; empty when the word is not a task.

    These changes stay when the task is excluded.
    """
    return [change for change in _list_task_changes(changes, query) if len(change.made_by) > 1]


def make_exclusion_request(query: str, changes: Sequence[Change], reason: str) -> dict[str, Any]:
    """Return the record of a user's request to exclude changes."""
    traces = {
        change.key: {
            "kind": change.kind, "paths": change.paths, "commits": [sha for maker in change.made_by for sha in maker.commits],
        }
        for change in changes
    }  # fmt: skip
    return {"what": query, "keys": list(traces), "reason": reason, "traces": traces}


def refresh_exclusion_request(row: Mapping[str, Any], changes: Sequence[Change]) -> dict[str, Any]:
    """Return an exclusion request with the current keys of its changes.

    An edit gets another key when a later task makes the same edit or a part of it.
    """
    current = {change.key for change in changes}
    traces: dict[str, Any] = {}
    for key in row["keys"]:
        trace = (row.get("traces") or {}).get(key)
        current_keys = (
            []
            if trace is None or key in current
            else [change.key for change in changes if _is_same_edit(change, trace)]
        )
        traces |= dict.fromkeys(current_keys or [key], trace)
    return {**row, "keys": list(traces), "traces": traces}


def _is_same_edit(change: Change, trace: Mapping[str, Any]) -> bool:
    """True when a change has the kind, a commit and a path of the recorded edit."""
    commits = {sha for maker in change.made_by for sha in maker.commits}
    is_near = not commits.isdisjoint(trace["commits"]) and not set(change.paths).isdisjoint(trace["paths"])
    return is_near and bool(change.kind == trace["kind"])


def list_dependents(changes: Sequence[Change], ids: Iterable[str]) -> list[tuple[Change, str]]:
    """Return the changes that need the excluded ones, directly or not, each with the reason."""
    excluded = set(ids)
    titles = {change.id: change.title for change in changes}
    dependents: list[tuple[Change, str]] = []
    while True:
        newly_excluded = [
            (change, sorted(excluded.intersection(change.needs)))
            for change in changes
            if change.id not in excluded and not excluded.isdisjoint(change.needs)
        ]
        if not newly_excluded:
            return dependents
        for change, needs in newly_excluded:
            needed = ", ".join(f"{name} ({titles[name]})" if name in titles else name for name in needs)
            dependents.append((change, f"it needs {needed}"))
        excluded.update(change.id for change, _ in newly_excluded)


# Interpret a word


def _list_task_changes(changes: Sequence[Change], task: str) -> list[Change]:
    titles = (task, untrusted.clean_line(task))
    return [
        change for change in changes if any(maker.task == task or maker.title in titles for maker in change.made_by)
    ]


def _match_commits(
    changes: Sequence[Change], prefix: str, commits: Sequence[Mapping[str, Any]]
) -> dict[str, list[Change]]:
    """Return the commits that begin with a word, with their changes: of the branch, of agents, or claimed."""
    if len(prefix) < _MIN_COMMIT_DIGITS or not _HEX_DIGITS.fullmatch(prefix):
        return {}
    by_id = {change.id: change for change in changes}
    matches: dict[str, list[Change]] = {}
    for row in commits:
        if str(row["commit"]).startswith(prefix):
            matches[str(row["commit"])] = [by_id[name] for name in row["changes"] if name in by_id]
    for change in changes:
        for sha in {change.commit, *(sha for maker in change.made_by for sha in maker.commits)}:
            if sha.startswith(prefix):
                matches.setdefault(sha, []).append(change)
    if matches:
        return matches
    for change in changes:
        for sha in {maker.claimed for maker in change.made_by if maker.claimed.startswith(prefix)}:
            matches.setdefault(sha, []).append(change)
    return matches


def _list_ids(changes: Sequence[Change]) -> list[str]:
    return [change.id for change in changes]


def _suggest_nearest(changes: Sequence[Change], query: str) -> str:
    makers = [maker for change in changes for maker in change.made_by]
    names = [*_list_ids(changes), *(maker.task for maker in makers), *(maker.title for maker in makers)]
    return suggest_closest(query, list(dict.fromkeys(names))) or "see: mngr tmr changes"
