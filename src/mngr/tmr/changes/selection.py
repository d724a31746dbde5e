"""What people mean by a word: the changes that it stands for, and what goes along with them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mngr.base.errors import MngrError, NotFound, suggest_closest
from mngr.tmr.changes.changes import Change
from mngr.tmr.commits import untrusted

_MIN_COMMIT_DIGITS = 6  # digits of a commit
_MAX_CANDIDATES = 5  # of what a word may mean
_HEX_DIGITS = re.compile(r"[0-9a-f]+")


def get_changes(changes: Sequence[Change], what: str, commits: Sequence[Mapping[str, Any]] = ()) -> list[Change]:
    """The changes that a task, a change or a commit stands for; `commits` are those of the branch, by integration.json.

    Raises NotFound, and MngrError for a word that may mean several things, or a task that has nothing of its own.
    """
    if made := _list_task_changes(changes, what):
        own = [change for change in made if len(change.made_by) == 1]
        if own:
            return own
        ids = ", ".join(change.id for change in made)
        raise MngrError(f"others made all that {what} made, too", f"name what is meant: {ids}")
    word = what.lower()
    exact = [change for change in changes if word in (change.id, change.key)]
    if exact:
        return exact
    meant = {f"change {change.id}": [change] for change in list_by_id_prefix(changes, word)}
    for sha, some in _match_commits(changes, word, commits).items():
        meant[f"commit {sha[:12]}"] = some
    if not meant:
        raise NotFound(f"{what!r} is no change, no task and no commit of this run", _suggest_nearest(changes, what))
    (first, *others) = meant.values()
    if any(_list_ids(other) != _list_ids(first) for other in others):
        rest = f" and {len(meant) - _MAX_CANDIDATES} more" if len(meant) > _MAX_CANDIDATES else ""
        raise MngrError(f"{what!r} may be {', '.join(list(meant)[:_MAX_CANDIDATES])}{rest}", "give more of its digits")
    return first


def list_by_id_prefix(changes: Sequence[Change], word: str) -> list[Change]:
    """The changes whose ids begin so; more digits than an id shows may be given."""
    return [change for change in changes if word and change.key.startswith(word.lower())]


def list_shared_changes(changes: Sequence[Change], what: str) -> list[Change]:
    """The changes of a task that others made, too; none for any other word. They stay when it goes."""
    return [change for change in _list_task_changes(changes, what) if len(change.made_by) > 1]


def make_exclusion_request(what: str, changes: Sequence[Change], reason: str) -> dict[str, Any]:
    """That people do not want these, as it is written down."""
    traces = {
        change.key: {
            "kind": change.kind, "paths": change.paths, "commits": [sha for maker in change.made_by for sha in maker.commits],
        }
        for change in changes
    }  # fmt: skip
    return {"what": what, "keys": list(traces), "reason": reason, "traces": traces}


def refresh_exclusion_request(row: Mapping[str, Any], changes: Sequence[Change]) -> dict[str, Any]:
    """A wish for the changes as they are now: since others made the same, or a part of it, an edit may go by other keys."""
    known = {change.key for change in changes}
    traces: dict[str, Any] = {}
    for key in row["keys"]:
        about = (row.get("traces") or {}).get(key)
        now = [] if about is None or key in known else [one.key for one in changes if _is_same_edit(one, about)]
        traces |= dict.fromkeys(now or [key], about)
    return {**row, "keys": list(traces), "traces": traces}


def _is_same_edit(change: Change, about: Mapping[str, Any]) -> bool:
    commits = {sha for maker in change.made_by for sha in maker.commits}
    is_near = not commits.isdisjoint(about["commits"]) and not set(change.paths).isdisjoint(about["paths"])
    return is_near and bool(change.kind == about["kind"])


def list_dependents(changes: Sequence[Change], gone: Iterable[str]) -> list[tuple[Change, str]]:
    """What goes along when these do, and why: the changes that need one of them, and those that need these."""
    left = set(gone)
    titles = {change.id: change.title for change in changes}
    found: list[tuple[Change, str]] = []
    while True:
        more = [
            (change, sorted(left.intersection(change.needs)))
            for change in changes
            if change.id not in left and not left.isdisjoint(change.needs)
        ]
        if not more:
            return found
        for change, needs in more:
            said = ", ".join(f"{name} ({titles[name]})" if name in titles else name for name in needs)
            found.append((change, f"it needs {said}"))
        left.update(change.id for change, _ in more)


# What a word may be


def _list_task_changes(changes: Sequence[Change], task: str) -> list[Change]:
    said = (task, untrusted.clean_line(task))
    return [change for change in changes if any(maker.task == task or maker.title in said for maker in change.made_by)]


def _match_commits(
    changes: Sequence[Change], word: str, commits: Sequence[Mapping[str, Any]]
) -> dict[str, list[Change]]:
    """The commits that a word is the beginning of, and the changes in each: of the branch, of agents, or claimed."""
    if len(word) < _MIN_COMMIT_DIGITS or not _HEX_DIGITS.fullmatch(word):
        return {}
    known = {change.id: change for change in changes}
    made: dict[str, list[Change]] = {}
    for row in commits:
        if str(row["commit"]).startswith(word):
            made[str(row["commit"])] = [known[name] for name in row["changes"] if name in known]
    for change in changes:
        for sha in {change.commit, *(sha for maker in change.made_by for sha in maker.commits)}:
            if sha.startswith(word):
                made.setdefault(sha, []).append(change)
    if made:
        return made
    for change in changes:
        for sha in {maker.claimed for maker in change.made_by if maker.claimed.startswith(word)}:
            made.setdefault(sha, []).append(change)
    return made


def _list_ids(changes: Sequence[Change]) -> list[str]:
    return [change.id for change in changes]


def _suggest_nearest(changes: Sequence[Change], what: str) -> str:
    makers = [maker for change in changes for maker in change.made_by]
    names = [*_list_ids(changes), *(maker.task for maker in makers), *(maker.title for maker in makers)]
    return suggest_closest(what, list(dict.fromkeys(names))) or "see: mngr tmr changes"
