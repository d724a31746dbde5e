"""Finds which changes conflict, which can be integrated together, and where several agents edit the same lines."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from mngr.base.model import Struct
from mngr.host.protocol import Host
from mngr.tmr.changes.collect_changes import Change
from mngr.tmr.commits.hunks import FileHunks, can_merge_hunks, list_file_edits
from mngr.tmr.commits.trees import PathSet, list_trees, merge_pairs


class ConflictPair(Struct):
    """Two changes that do not merge."""

    one: str  # ids, the smaller first
    other: str
    paths: list[str]

    @property
    def changes(self) -> tuple[str, str]:
        """The ids of both changes."""
        return self.one, self.other


class LineOverlap(Struct):
    """Lines of the base that several agents edit."""

    path: str
    first: int  # line numbers of the base; an insertion counts for the lines before and after it
    last: int
    who: list[str]


def list_conflicts(local: Host, repo: str, changes: Sequence[Change]) -> list[ConflictPair]:
    """Return every pair of changes that does not merge, found by merging all pairs that could conflict."""
    rows = sorted({change.id: change for change in changes}.values(), key=lambda change: change.id)
    names = [name for change in rows for name in (change.parent, change.commit)]
    trees = [str(tree) for tree in list_trees(local, repo, names)]
    file_edits = list_file_edits(local, repo, list(zip(trees[::2], trees[1::2], strict=True)))
    areas = [_ChangeArea(change, files) for change, files in zip(rows, file_edits, strict=True)]
    pairs = [pair for pair in itertools.combinations(areas, 2) if pair[0].can_conflict(pair[1])]
    merged = merge_pairs(local, repo, [(first.change.commit, second.change.commit) for first, second in pairs])
    return [
        ConflictPair(one=first.change.id, other=second.change.id, paths=result.conflict_paths)
        for (first, second), result in zip(pairs, merged, strict=True)
        if result.conflict_paths
    ]


class _ChangeArea:
    """A change, and the paths and lines that it edits."""

    def __init__(self, change: Change, files: Sequence[FileHunks]) -> None:
        self.change = change
        self.hunks = {file.row.path: file.hunks or () for file in files if file.has_only_line_edits}
        self.paths = PathSet(change.paths)
        self.other_paths = PathSet(file.row.path for file in files if not file.has_only_line_edits)

    def can_conflict(self, other: _ChangeArea) -> bool:
        """True when the two may conflict, so that git must try the merge."""
        if not self.paths.has_overlap(other.paths):
            return False
        if (
            self.change.parent != other.change.parent
            or self.other_paths.has_overlap(other.paths)
            or other.other_paths.has_overlap(self.paths)
        ):
            return True
        shared_paths = self.hunks.keys() & other.hunks.keys()
        return not all(can_merge_hunks(self.hunks[path], other.hunks[path]) for path in shared_paths)


def map_conflicts(conflicts: Sequence[ConflictPair]) -> dict[str, set[str]]:
    """Return the conflicting ids of each change, in both directions."""
    neighbours: dict[str, set[str]] = {}
    for pair in conflicts:
        neighbours.setdefault(pair.one, set()).add(pair.other)
        neighbours.setdefault(pair.other, set()).add(pair.one)
    return neighbours


def choose_compatible(
    changes: Sequence[Change], conflicts: Sequence[ConflictPair], already_included: Iterable[str] = ()
) -> list[Change]:
    """Return changes without conflicts among them, as many as a greedy choice finds.

    The change with the fewest conflicts is chosen first; of equals, the earlier one. A change is dropped when something
    that it needs is neither chosen nor in `already_included`.
    """
    neighbours = map_conflicts(conflicts)
    order = {change.id: number for number, change in enumerate(changes)}
    candidates = {change.id: neighbours.get(change.id, set()) & order.keys() for change in changes}
    chosen_ids: set[str] = set()
    while candidates:
        best = min(candidates, key=lambda name: (len(candidates[name]), order[name]))
        chosen_ids.add(best)
        conflicting = candidates.pop(best)
        for name in conflicting:
            for other in candidates.pop(name, ()):
                if other in candidates:
                    candidates[other] = candidates[other] - {name}
    chosen = [change for change in changes if change.id in chosen_ids]
    while True:
        ids = {change.id for change in chosen}.union(already_included)
        satisfied = [change for change in chosen if ids.issuperset(change.needs)]
        if len(satisfied) == len(chosen):
            return chosen
        chosen = satisfied


def list_overlaps(local: Host, repo: str, base: str, heads: Mapping[str, str]) -> list[LineOverlap]:
    """Return where several agents edit the same lines, judged by their commits since the base."""
    names = sorted(heads)
    trees = list_trees(local, repo, [base, *(heads[name] for name in names)])
    agents = [(name, tree) for name, tree in zip(names, trees[1:], strict=True) if tree is not None]
    files = list_file_edits(local, repo, [(str(trees[0]), tree) for _, tree in agents])
    spans: dict[str, list[tuple[int, int, str]]] = {}
    for (name, _), edits in zip(agents, files, strict=True):
        for file in edits:
            for hunk in file.hunks or ():
                first, last = hunk.start + bool(hunk.old), hunk.start + max(1, len(hunk.old))
                spans.setdefault(file.row.path, []).append((first, last, name))
    return [overlap for path in sorted(spans) for overlap in _group_spans(path, sorted(spans[path]))]


def _group_spans(path: str, spans: Sequence[tuple[int, int, str]]) -> list[LineOverlap]:
    """Return the groups of overlapping spans that belong to more than one agent."""
    overlaps: list[LineOverlap] = []
    for first, last, name in spans:
        if overlaps and first <= overlaps[-1].last:
            agents = sorted({*overlaps[-1].who, name})
            overlaps[-1] = overlaps[-1].replace(last=max(last, overlaps[-1].last), who=agents)
        else:
            overlaps.append(LineOverlap(path=path, first=first, last=last, who=[name]))
    return [overlap for overlap in overlaps if len(overlap.who) > 1]
