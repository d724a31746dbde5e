"""Who is in whose way: which changes do not merge with which, what goes together, and who works on the same lines."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from mngr.base.model import Struct
from mngr.host.protocol import Host
from mngr.tmr.changes.changes import Change
from mngr.tmr.commits.hunks import FileEdit, can_merge_hunks, list_file_edits
from mngr.tmr.commits.trees import PathSet, list_trees, merge_pairs


class ConflictPair(Struct):
    """Two changes that do not merge."""

    one: str  # ids, the lesser first
    other: str
    paths: list[str]


class LineOverlap(Struct):
    """Lines of the base that several work on."""

    path: str
    first: int  # lines of the base; new lines between two of them count as at both
    last: int
    who: list[str]


def list_conflicts(local: Host, repo: str, changes: Sequence[Change]) -> list[ConflictPair]:
    """Every pair of changes that does not merge, found by merging all that come near each other."""
    rows = sorted({change.id: change for change in changes}.values(), key=lambda change: change.id)
    names = [name for change in rows for name in (change.parent, change.commit)]
    trees = [str(tree) for tree in list_trees(local, repo, names)]
    every = list_file_edits(local, repo, list(zip(trees[::2], trees[1::2], strict=True)))
    works = [_ChangeArea(change, files) for change, files in zip(rows, every, strict=True)]
    pairs = [pair for pair in itertools.combinations(works, 2) if pair[0].can_conflict(pair[1])]
    merged = merge_pairs(local, repo, [(one.change.commit, other.change.commit) for one, other in pairs])
    return [
        ConflictPair(one=one.change.id, other=other.change.id, paths=done.conflict_paths)
        for (one, other), done in zip(pairs, merged, strict=True)
        if done.conflict_paths
    ]


class _ChangeArea:
    """A change, and where it works."""

    def __init__(self, change: Change, files: Sequence[FileEdit]) -> None:
        self.change = change
        self.hunks = {file.row.path: file.hunks or () for file in files if file.has_only_line_edits}
        self.paths = PathSet(change.paths)
        self.other_paths = PathSet(file.row.path for file in files if not file.has_only_line_edits)

    def can_conflict(self, other: _ChangeArea) -> bool:
        """Whether the two may not merge: git must say."""
        if not self.paths.has_overlap(other.paths):
            return False
        if (
            self.change.parent != other.change.parent
            or self.other_paths.has_overlap(other.paths)
            or other.other_paths.has_overlap(self.paths)
        ):
            return True
        both = self.hunks.keys() & other.hunks.keys()
        return not all(can_merge_hunks(self.hunks[path], other.hunks[path]) for path in both)


def map_conflicts(found: Sequence[ConflictPair]) -> dict[str, set[str]]:
    """Who clashes with whom, both ways."""
    near: dict[str, set[str]] = {}
    for clash in found:
        near.setdefault(clash.one, set()).add(clash.other)
        near.setdefault(clash.other, set()).add(clash.one)
    return near


def choose_compatible(
    changes: Sequence[Change], found: Sequence[ConflictPair], there: Iterable[str] = ()
) -> list[Change]:
    """Changes of which no two clash, as many as taking the least troublesome first gives; of equals the earlier.

    What a change needs is taken with it, or is one of those that are there, or the change is not taken.
    """
    near = map_conflicts(found)
    place = {change.id: number for number, change in enumerate(changes)}
    left = {change.id: near.get(change.id, set()) & place.keys() for change in changes}
    taken: set[str] = set()
    while left:
        best = min(left, key=lambda name: (len(left[name]), place[name]))
        taken.add(best)
        gone = left.pop(best)
        for name in gone:
            for other in left.pop(name, ()):
                if other in left:
                    left[other] = left[other] - {name}
    kept = [change for change in changes if change.id in taken]
    while True:
        ids = {change.id for change in kept}.union(there)
        whole = [change for change in kept if ids.issuperset(change.needs)]
        if len(whole) == len(kept):
            return kept
        kept = whole


def list_overlaps(local: Host, repo: str, base: str, heads: Mapping[str, str]) -> list[LineOverlap]:
    """Where several work on the same lines, by what each has committed since the base."""
    names = sorted(heads)
    trees = list_trees(local, repo, [base, *(heads[name] for name in names)])
    known = [(name, tree) for name, tree in zip(names, trees[1:], strict=True) if tree is not None]
    files = list_file_edits(local, repo, [(str(trees[0]), tree) for _, tree in known])
    spans: dict[str, list[tuple[int, int, str]]] = {}
    for (name, _), some in zip(known, files, strict=True):
        for file in some:
            for hunk in file.hunks or ():
                first, last = hunk.start + bool(hunk.old), hunk.start + max(1, len(hunk.old))
                spans.setdefault(file.row.path, []).append((first, last, name))
    return [meeting for path in sorted(spans) for meeting in _group_spans(path, sorted(spans[path]))]


def _group_spans(path: str, spans: Sequence[tuple[int, int, str]]) -> list[LineOverlap]:
    """Spans that touch one another, where they are of more than one."""
    found: list[LineOverlap] = []
    for first, last, name in spans:
        if found and first <= found[-1].last:
            who = sorted({*found[-1].who, name})
            found[-1] = found[-1].replace(last=max(last, found[-1].last), who=who)
        else:
            found.append(LineOverlap(path=path, first=first, last=last, who=[name]))
    return [meeting for meeting in found if len(meeting.who) > 1]
