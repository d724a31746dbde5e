"""Who is in whose way: which changes do not merge with which, what goes together, and who works on the same lines."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from mngr.base.model import Record
from mngr.host.protocol import Host
from mngr.tmr.changes.changes import Change
from mngr.tmr.commits.hunks import FileEdit, are_apart, files_of
from mngr.tmr.commits.trees import Reach, merge_all, trees_of


class Clash(Record):
    """Two changes that do not merge."""

    one: str  # ids, the lesser first
    other: str
    paths: list[str]


class Meeting(Record):
    """Lines of the base that several work on."""

    path: str
    first: int  # lines of the base; new lines between two of them count as at both
    last: int
    who: list[str]


def clashes(local: Host, repo: str, changes: Sequence[Change]) -> list[Clash]:
    """Every pair of changes that does not merge, found by merging all that come near each other."""
    rows = sorted({change.id: change for change in changes}.values(), key=lambda change: change.id)
    names = [name for change in rows for name in (change.parent, change.commit)]
    trees = [str(tree) for tree in trees_of(local, repo, names)]
    every = files_of(local, repo, list(zip(trees[::2], trees[1::2], strict=True)))
    works = [_Work(change, files) for change, files in zip(rows, every, strict=True)]
    pairs = [pair for pair in itertools.combinations(works, 2) if pair[0].is_near(pair[1])]
    merged = merge_all(local, repo, [(one.change.commit, other.change.commit) for one, other in pairs])
    return [
        Clash(one=one.change.id, other=other.change.id, paths=done.paths)
        for (one, other), done in zip(pairs, merged, strict=True)
        if done.paths
    ]


class _Work:
    """A change, and where it works."""

    def __init__(self, change: Change, files: Sequence[FileEdit]) -> None:
        self.change = change
        self.plain = {file.row.path: file.hunks or () for file in files if file.is_plain}
        self.reach = Reach(change.paths)
        self.other = Reach(file.row.path for file in files if not file.is_plain)

    def is_near(self, other: _Work) -> bool:
        """Whether the two may not merge: git must say."""
        if not self.reach.meets(other.reach):
            return False
        if (
            self.change.parent != other.change.parent
            or self.other.meets(other.reach)
            or other.other.meets(self.reach)
        ):
            return True
        both = self.plain.keys() & other.plain.keys()
        return not all(are_apart(self.plain[path], other.plain[path]) for path in both)


def neighbours(found: Sequence[Clash]) -> dict[str, set[str]]:
    """Who clashes with whom, both ways."""
    near: dict[str, set[str]] = {}
    for clash in found:
        near.setdefault(clash.one, set()).add(clash.other)
        near.setdefault(clash.other, set()).add(clash.one)
    return near


def largest(changes: Sequence[Change], found: Sequence[Clash], there: Iterable[str] = ()) -> list[Change]:
    """Changes of which no two clash, as many as taking the least troublesome first gives; of equals the earlier.

    What a change needs is taken with it, or is one of those that are there, or the change is not taken.
    """
    near = neighbours(found)
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


def converging(local: Host, repo: str, base: str, heads: Mapping[str, str]) -> list[Meeting]:
    """Where several work on the same lines, by what each has committed since the base."""
    names = sorted(heads)
    trees = trees_of(local, repo, [base, *(heads[name] for name in names)])
    known = [(name, tree) for name, tree in zip(names, trees[1:], strict=True) if tree is not None]
    files = files_of(local, repo, [(str(trees[0]), tree) for _, tree in known])
    spans: dict[str, list[tuple[int, int, str]]] = {}
    for (name, _), some in zip(known, files, strict=True):
        for file in some:
            for hunk in file.hunks or ():
                first, last = hunk.start + bool(hunk.old), hunk.start + max(1, len(hunk.old))
                spans.setdefault(file.row.path, []).append((first, last, name))
    return [meeting for path in sorted(spans) for meeting in _together(path, sorted(spans[path]))]


def _together(path: str, spans: Sequence[tuple[int, int, str]]) -> list[Meeting]:
    """Spans that touch one another, where they are of more than one."""
    found: list[Meeting] = []
    for first, last, name in spans:
        if found and first <= found[-1].last:
            who = sorted({*found[-1].who, name})
            found[-1] = found[-1].replace(last=max(last, found[-1].last), who=who)
        else:
            found.append(Meeting(path=path, first=first, last=last, who=[name]))
    return [meeting for meeting in found if len(meeting.who) > 1]
