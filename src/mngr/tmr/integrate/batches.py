"""All changes of an integration, batch by batch: what stood before, the largest set without a clash, what still goes, what must be merged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mngr.base.model import Struct
from mngr.host.protocol import Host
from mngr.tmr.changes.changes import Change
from mngr.tmr.changes.conflict_graph import ConflictPair, choose_compatible, list_conflicts, map_conflicts
from mngr.tmr.commits import untrusted
from mngr.tmr.integrate.conflicts import ConflictResolver
from mngr.tmr.integrate.earlier_verdicts import list_earlier_exclusions, list_retriable_changes
from mngr.tmr.integrate.trial import BranchTrial, Exclusion, TrialResult


class BatchResult(Struct):
    """The branch, and what became of everything that is not in it."""

    trial_result: TrialResult
    exclusions: list[Exclusion]
    resolved: list[dict[str, Any]] = []  # what somebody merged
    usage: dict[str, Any] = {}  # on that


class BatchIntegration:
    """One integration's."""

    def __init__(
        self, local: Host, repo: str, onto: str, trial: BranchTrial, last: dict[str, Any], say: Callable[[str], None]
    ) -> None:  # fmt: skip
        self._local, self._repo, self._onto, self._trial, self._say = local, repo, onto, trial, say
        self._earlier_verdicts = last.get("stood") or {}

    def integrate_changes(self, chosen: list[Change], table: Callable[[], ConflictResolver]) -> BatchResult:
        """As many as go together; `table` is for those that do not merge."""
        by_id = {change.id: change for change in chosen}
        settled, asides = self._integrate_compatible(chosen, by_id)
        waiting = [one for one in asides if one.why == "conflict"]
        if not waiting:
            return BatchResult(trial_result=settled, exclusions=asides)
        done = table().resolve(settled, [(by_id[one.change], one) for one in waiting], by_id)
        merged = {row["change"] for row in done.resolved}
        asides = [one for one in asides if one.change not in merged and one.why != "conflict"] + done.exclusions
        settled, asides = self._add_unblocked(done.trial_result, asides, merged, by_id)
        there = {change.id for change in settled.chosen}
        resolved = [row for row in done.resolved if row["change"] in there]
        return BatchResult(trial_result=settled, exclusions=asides, resolved=resolved, usage=done.usage)

    def _integrate_compatible(
        self, chosen: list[Change], by_id: dict[str, Change]
    ) -> tuple[TrialResult, list[Exclusion]]:
        """What earlier integrations saw is not seen again, unless what has changed since could change it."""
        known, doubtful = list_earlier_exclusions(self._earlier_verdicts, self._onto, chosen)
        chosen = _remove_excluded(chosen, known)
        if doubtful:
            tests = {str(one.proof["test"]) for one in doubtful if one.proof}
            red = self._trial.list_failing_with(chosen, tests)
            known += [one for one in doubtful if one.proof and one.proof["test"] in red]
            chosen = _remove_excluded(chosen, known)
        settled, asides = self._grow_branch(chosen)
        if back := list_retriable_changes(self._trial, settled, known, {one.change for one in doubtful}, by_id):
            settled = self._trial.choose_changes(_sort_like(list(by_id.values()), [*settled.chosen, *back]))
            known = [one for one in known if one.change not in {change.id for change in back}]
            asides += settled.exclusions
        return settled, [*known, *asides]

    def _grow_branch(self, chosen: Sequence[Change]) -> tuple[TrialResult, list[Exclusion]]:
        """The largest set of which no two clash; then what clashes with nothing that is still there; and what does."""
        found = list_conflicts(self._local, self._repo, chosen)
        near = map_conflicts(found)
        first = choose_compatible(chosen, found)
        self._say(f"changes: {len(chosen)}, without a clash: {len(first)}")
        settled = self._trial.choose_changes(first)
        asides = {one.change: one for one in settled.exclusions}
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
            more = choose_compatible(free, found, there)
            if not more:
                break
            seen |= {change.id for change in more}
            settled = self._trial.choose_changes(_sort_like(chosen, [*settled.chosen, *more]))
            asides |= {one.change: one for one in settled.exclusions}
        for change in chosen:
            if change.id not in seen:
                asides[change.id] = _explain_exclusion(change, there, found)
        return settled, list(asides.values())

    def _add_unblocked(
        self, settled: TrialResult, asides: list[Exclusion], merged: set[str], by_id: dict[str, Change]
    ) -> tuple[TrialResult, list[Exclusion]]:
        """With what needed one of those that somebody merged."""
        there = merged | {change.id for change in settled.chosen}
        late = [by_id[one.change] for one in asides if one.why == "needs" and there.issuperset(one.others)]
        if not late:
            return settled, asides
        settled = self._trial.choose_changes([*settled.chosen, *late])
        names = {change.id for change in late}
        return settled, [one for one in asides if one.change not in names] + settled.exclusions


def _remove_excluded(changes: list[Change], known: list[Exclusion]) -> list[Change]:
    names = {one.change for one in known}
    return [change for change in changes if change.id not in names]


def _explain_exclusion(change: Change, there: set[str], found: Sequence[ConflictPair]) -> Exclusion:
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
        return Exclusion(change=change.id, why="needs", reason=reason, others=missing)
    paths = sorted({path for clash in rows for path in clash.paths})
    reason = f"it does not merge with {', '.join(others)}: {', '.join(map(untrusted.clean_line, paths))}"
    return Exclusion(change=change.id, why="conflict", reason=reason, others=others)


def _sort_like(order: Sequence[Change], some: Sequence[Change]) -> list[Change]:
    place = {change.id: number for number, change in enumerate(order)}
    return sorted(some, key=lambda change: place[change.id])
