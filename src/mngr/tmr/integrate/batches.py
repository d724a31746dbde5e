"""All changes of an integration, batch by batch: what stood before, the largest set without a clash, what still goes, what must be merged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mngr.base.model import Record
from mngr.host.protocol import Host
from mngr.tmr.changes.changes import Change
from mngr.tmr.changes.conflict_graph import Clash, clashes, largest, neighbours
from mngr.tmr.commits import hostile
from mngr.tmr.integrate.conflicts import Conflicts
from mngr.tmr.integrate.earlier_verdicts import freed, stood
from mngr.tmr.integrate.trial import Aside, Settled, Trial


class Taken(Record):
    """The branch, and what became of everything that is not in it."""

    settled: Settled
    asides: list[Aside]
    resolved: list[dict[str, Any]] = []  # what somebody merged
    spent: dict[str, Any] = {}  # on that


class Batches:
    """One integration's."""

    def __init__(
        self, local: Host, repo: str, onto: str, trial: Trial, last: dict[str, Any], say: Callable[[str], None]
    ) -> None:  # fmt: skip
        self._local, self._repo, self._onto, self._trial, self._say = local, repo, onto, trial, say
        self._last = last.get("stood") or {}

    def take(self, chosen: list[Change], table: Callable[[], Conflicts]) -> Taken:
        """As many as go together; `table` is for those that do not merge."""
        by_id = {change.id: change for change in chosen}
        settled, asides = self._without_clash(chosen, by_id)
        waiting = [one for one in asides if one.why == "conflict"]
        if not waiting:
            return Taken(settled=settled, asides=asides)
        done = table().merge(settled, [(by_id[one.change], one) for one in waiting], by_id)
        merged = {row["change"] for row in done.solved}
        asides = [one for one in asides if one.change not in merged and one.why != "conflict"] + done.asides
        settled, asides = self._late(done.settled, asides, merged, by_id)
        there = {change.id for change in settled.chosen}
        resolved = [row for row in done.solved if row["change"] in there]
        return Taken(settled=settled, asides=asides, resolved=resolved, spent=done.spent)

    def _without_clash(self, chosen: list[Change], by_id: dict[str, Change]) -> tuple[Settled, list[Aside]]:
        """What earlier integrations saw is not seen again, unless what has changed since could change it."""
        known, doubtful = stood(self._last, self._onto, chosen)
        chosen = _but(chosen, known)
        if doubtful:
            tests = {str(one.proof["test"]) for one in doubtful if one.proof}
            red = self._trial.red_with(chosen, tests)
            known += [one for one in doubtful if one.proof and one.proof["test"] in red]
            chosen = _but(chosen, known)
        settled, asides = self._grown(chosen)
        if back := freed(self._trial, settled, known, {one.change for one in doubtful}, by_id):
            settled = self._trial.settle(_in_order(list(by_id.values()), [*settled.chosen, *back]))
            known = [one for one in known if one.change not in {change.id for change in back}]
            asides += settled.asides
        return settled, [*known, *asides]

    def _grown(self, chosen: Sequence[Change]) -> tuple[Settled, list[Aside]]:
        """The largest set of which no two clash; then what clashes with nothing that is still there; and what does."""
        found = clashes(self._local, self._repo, chosen)
        near = neighbours(found)
        first = largest(chosen, found)
        self._say(f"changes: {len(chosen)}, without a clash: {len(first)}")
        settled = self._trial.settle(first)
        asides = {one.change: one for one in settled.asides}
        seen = {change.id for change in first}
        while True:
            there = {change.id for change in settled.chosen}
            free = [
                change
                for change in chosen
                if change.id not in seen
                and there.isdisjoint(near.get(change.id, ()))
                and there.issuperset(change.needs)
            ]
            more = largest(free, found, there)
            if not more:
                break
            seen |= {change.id for change in more}
            settled = self._trial.settle(_in_order(chosen, [*settled.chosen, *more]))
            asides |= {one.change: one for one in settled.asides}
        for change in chosen:
            if change.id not in seen:
                asides[change.id] = _left(change, there, found)
        return settled, list(asides.values())

    def _late(
        self, settled: Settled, asides: list[Aside], merged: set[str], by_id: dict[str, Change]
    ) -> tuple[Settled, list[Aside]]:
        """With what needed one of those that somebody merged."""
        there = merged | {change.id for change in settled.chosen}
        late = [by_id[one.change] for one in asides if one.why == "needs" and there.issuperset(one.others)]
        if not late:
            return settled, asides
        settled = self._trial.settle([*settled.chosen, *late])
        names = {change.id for change in late}
        return settled, [one for one in asides if one.change not in names] + settled.asides


def _but(changes: list[Change], known: list[Aside]) -> list[Change]:
    names = {one.change for one in known}
    return [change for change in changes if change.id not in names]


def _left(change: Change, there: set[str], found: Sequence[Clash]) -> Aside:
    """Why a change is not taken that clashes with those that are, or needs one that is not."""
    rows = [
        clash
        for clash in found
        if change.id in (clash.one, clash.other) and there.intersection((clash.one, clash.other))
    ]
    others = sorted({name for clash in rows for name in (clash.one, clash.other)} - {change.id})
    if not others:
        missing = sorted(set(change.needs) - there)
        reason = f"it needs {', '.join(missing)}, which is not there"
        return Aside(change=change.id, why="needs", reason=reason, others=missing)
    paths = sorted({path for clash in rows for path in clash.paths})
    reason = f"it does not merge with {', '.join(others)}: {', '.join(map(hostile.clean, paths))}"
    return Aside(change=change.id, why="conflict", reason=reason, others=others)


def _in_order(order: Sequence[Change], some: Sequence[Change]) -> list[Change]:
    place = {change.id: number for number, change in enumerate(order)}
    return sorted(some, key=lambda change: place[change.id])
