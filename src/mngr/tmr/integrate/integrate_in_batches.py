"""Integrates changes in batches: reuses earlier verdicts, adds the compatible changes, then resolves conflicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mngr.base.model import Struct
from mngr.host.protocol import Host
from mngr.mapreduce.journal.agent_usage import AgentUsage
from mngr.tmr.changes.collect_changes import Change
from mngr.tmr.changes.conflict_graph import ConflictPair, choose_compatible, list_conflicts, map_conflicts
from mngr.tmr.changes.integration_record import EarlierVerdicts, Exclusion, ResolvedConflict
from mngr.tmr.commits import clean_untrusted_text
from mngr.tmr.integrate.earlier_verdicts import list_earlier_exclusions, list_retriable_changes
from mngr.tmr.integrate.exclude_breaking import BranchTrial, TrialResult, remove_excluded
from mngr.tmr.integrate.resolve_conflicts import ConflictResolver


class BatchResult(Struct):
    """The branch, and what became of every change that is not in it."""

    trial_result: TrialResult
    exclusions: list[Exclusion]
    resolved: list[ResolvedConflict] = []  # conflicts that an agent or tool resolved
    usage: AgentUsage = AgentUsage()  # usage for resolving conflicts


class BatchIntegration:
    """The batches of one integration."""

    def __init__(
        self,
        local: Host,
        repo: str,
        onto: str,
        trial: BranchTrial,
        earlier_verdicts: EarlierVerdicts | None,
        report: Callable[[str], None],
    ) -> None:
        self._local = local
        self._repo = repo
        self._onto = onto
        self._trial = trial
        self._report = report
        self._earlier_verdicts = earlier_verdicts

    def integrate_changes(self, chosen: list[Change], make_resolver: Callable[[], ConflictResolver]) -> BatchResult:
        """Integrate as many changes as possible. `make_resolver` is called if some of them conflict."""
        by_id = {change.id: change for change in chosen}
        result, exclusions = self._integrate_compatible(chosen, by_id)
        conflicts = [exclusion for exclusion in exclusions if exclusion.why == "conflict"]
        if not conflicts:
            return BatchResult(trial_result=result, exclusions=exclusions)
        resolution = make_resolver().resolve(
            result, [(by_id[exclusion.change], exclusion) for exclusion in conflicts], by_id
        )
        merged = {row.change for row in resolution.resolved}
        other_exclusions = [
            exclusion for exclusion in exclusions if exclusion.change not in merged and exclusion.why != "conflict"
        ]
        exclusions = [*other_exclusions, *resolution.exclusions]
        result, exclusions = self._add_unblocked(resolution.trial_result, exclusions, merged, by_id)
        included = {change.id for change in result.chosen}
        resolved = [row for row in resolution.resolved if row.change in included]
        return BatchResult(trial_result=result, exclusions=exclusions, resolved=resolved, usage=resolution.usage)

    def _integrate_compatible(
        self, chosen: list[Change], by_id: dict[str, Change]
    ) -> tuple[TrialResult, list[Exclusion]]:
        """Integrate the compatible changes. Earlier verdicts hold unless a new change could affect them."""
        earlier, doubtful = list_earlier_exclusions(self._earlier_verdicts, self._onto, chosen)
        chosen = remove_excluded(chosen, earlier)
        earlier += self._confirm_exclusions(doubtful, chosen)
        chosen = remove_excluded(chosen, earlier)
        result, exclusions = self._grow_branch(chosen)
        doubtful_ids = {exclusion.change for exclusion in doubtful}
        retriable = list_retriable_changes(self._trial, result, earlier, doubtful_ids, by_id)
        if retriable:
            result = self._trial.choose_changes(_sort_like(list(by_id.values()), [*result.chosen, *retriable]))
            retriable_ids = {change.id for change in retriable}
            earlier = [exclusion for exclusion in earlier if exclusion.change not in retriable_ids]
            exclusions += result.exclusions
        return result, [*earlier, *exclusions]

    def _confirm_exclusions(self, doubtful: Sequence[Exclusion], chosen: Sequence[Change]) -> list[Exclusion]:
        """Return those of the doubtful exclusions whose test fails even without the excluded change."""
        proven = [(exclusion, exclusion.proof) for exclusion in doubtful if exclusion.proof is not None]
        if not proven:
            return []
        failing = self._trial.list_failing_with(chosen, {proof.test for _, proof in proven})
        return [exclusion for exclusion, proof in proven if proof.test in failing]

    def _grow_branch(self, chosen: Sequence[Change]) -> tuple[TrialResult, list[Exclusion]]:
        """Integrate a large set without conflicts, then add what still fits. Explain the remaining exclusions."""
        conflicts = list_conflicts(self._local, self._repo, chosen)
        neighbours = map_conflicts(conflicts)
        first = choose_compatible(chosen, conflicts)
        self._report(f"changes to integrate: {len(chosen)}, without a conflict: {len(first)}")
        result = self._trial.choose_changes(first)
        exclusions = {exclusion.change: exclusion for exclusion in result.exclusions}
        tried = {change.id for change in first}
        while True:
            included = {change.id for change in result.chosen}
            untried = [change for change in chosen if change.id not in tried]
            candidates = [
                change
                for change in untried
                if included.isdisjoint(neighbours.get(change.id, ())) and included.issuperset(change.needs)
            ]
            addition = choose_compatible(candidates, conflicts, included)
            if not addition:
                break
            tried |= {change.id for change in addition}
            result = self._trial.choose_changes(_sort_like(chosen, [*result.chosen, *addition]))
            exclusions |= {exclusion.change: exclusion for exclusion in result.exclusions}
        exclusions |= {change.id: _explain_exclusion(change, included, conflicts) for change in untried}
        return result, list(exclusions.values())

    def _add_unblocked(
        self, result: TrialResult, exclusions: list[Exclusion], merged: set[str], by_id: dict[str, Change]
    ) -> tuple[TrialResult, list[Exclusion]]:
        """Add the changes that needed one of the resolved conflicts."""
        included = merged | {change.id for change in result.chosen}
        unblocked = [
            by_id[exclusion.change]
            for exclusion in exclusions
            if exclusion.why == "needs" and included.issuperset(exclusion.others)
        ]
        if not unblocked:
            return result, exclusions
        result = self._trial.choose_changes([*result.chosen, *unblocked])
        unblocked_ids = {change.id for change in unblocked}
        still_excluded = [exclusion for exclusion in exclusions if exclusion.change not in unblocked_ids]
        return result, [*still_excluded, *result.exclusions]


def _explain_exclusion(change: Change, included: set[str], conflicts: Sequence[ConflictPair]) -> Exclusion:
    """Return why a change is excluded: a conflict with an included change, or a missing one that it needs."""
    own_conflicts = [
        conflict
        for conflict in conflicts
        if change.id in conflict.changes and not included.isdisjoint(conflict.changes)
    ]
    others = sorted({name for conflict in own_conflicts for name in conflict.changes} - {change.id})
    if not others:
        missing = sorted(set(change.needs) - included)
        reason = f"it needs {', '.join(missing)}, which is excluded"
        return Exclusion(change=change.id, why="needs", reason=reason, others=missing)
    paths = sorted({path for conflict in own_conflicts for path in conflict.paths})
    reason = f"it conflicts with {', '.join(others)} in {', '.join(map(clean_untrusted_text.clean_line, paths))}"
    return Exclusion(change=change.id, why="conflict", reason=reason, others=others)


def _sort_like(order: Sequence[Change], changes: Sequence[Change]) -> list[Change]:
    position = {change.id: number for number, change in enumerate(order)}
    return sorted(changes, key=lambda change: position[change.id])
