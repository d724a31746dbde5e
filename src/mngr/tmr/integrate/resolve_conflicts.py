"""Resolves merge conflicts: by git's memory, by a merge tool, by the change's author or by another agent.

Every resolution is tested like any other change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mngr.api import Fleet
from mngr.base.model import Struct
from mngr.mapreduce.journal.agent_usage import AgentUsage, add_usage
from mngr.mapreduce.run_dir import RunDir
from mngr.tmr.changes.collect_changes import Change
from mngr.tmr.changes.integration_record import Exclusion, ResolvedConflict, describe_resolver
from mngr.tmr.integrate.ask_agents import KINDS_WITHOUT_ANSWERS, SCRIPTED, make_row_announcer
from mngr.tmr.integrate.automatic_resolution import (
    find_known_resolution,
    find_merge_tool,
    rebuild_change,
    record_resolution,
)
from mngr.tmr.integrate.bisect import list_claimed_tests
from mngr.tmr.integrate.conflict_agents import ConflictResolution, UnmergedChange, resolve_conflicts
from mngr.tmr.integrate.exclude_breaking import BranchTrial, TrialResult
from mngr.tmr.integrate.integration_request import IntegrateRequest
from mngr.tmr.run_plan import RunPlan

ProgressListener = Callable[[str], None]


class ConflictResult(Struct):
    """The result for the changes that did not merge."""

    trial_result: TrialResult
    resolved: list[ResolvedConflict]
    exclusions: list[Exclusion]
    usage: AgentUsage


class ConflictResolver:
    """Resolves the conflicts of one integration."""

    def __init__(
        self,
        fleet: Fleet,
        run: RunDir,
        plan: RunPlan,
        trial: BranchTrial,
        request: IntegrateRequest,
        report: ProgressListener,
    ) -> None:
        self._fleet, self._run, self._plan = fleet, run, plan
        self._trial = trial
        self._request = request
        self._report = report
        self._local = fleet.context.local_host
        self._tool = find_merge_tool(fleet.context.settings)

    def resolve(
        self, result: TrialResult, waiting: Sequence[tuple[Change, Exclusion]], change_by_id: dict[str, Change]
    ) -> ConflictResult:
        """Try the known resolutions one by one on the growing branch, then ask agents about the rest."""
        resolved: list[ResolvedConflict] = []
        exclusions: list[Exclusion] = []
        unresolved: list[tuple[Change, Exclusion]] = []
        for change, exclusion in waiting:
            known_resolution = find_known_resolution(self._local, self._run, result.composed.head, change, self._tool)
            if known_resolution is None:
                unresolved.append((change, exclusion))
                continue
            answer = ConflictResolution(tree=known_resolution[0], by=known_resolution[1])
            result, resolved_rows, failed = self._try_resolution(
                result, result.composed.head, change, exclusion, change_by_id, answer
            )
            resolved, exclusions = resolved + resolved_rows, exclusions + failed
        head = result.composed.head
        usage = AgentUsage()
        answers = self._ask_agents(head, unresolved, change_by_id) if unresolved and self._request.rounds else {}
        for change, exclusion in unresolved:
            answer = answers.get(change.id, ConflictResolution(tree=None))
            usage = add_usage(usage, answer.usage)
            if answer.tree is None:
                reason = f"{exclusion.reason}; {answer.reason}" if answer.reason else exclusion.reason
                exclusions.append(exclusion.replace(reason=reason))
                continue
            result, resolved_rows, failed = self._try_resolution(result, head, change, exclusion, change_by_id, answer)
            resolved, exclusions = resolved + resolved_rows, exclusions + failed
        return ConflictResult(trial_result=result, resolved=resolved, exclusions=exclusions, usage=usage)

    def _ask_agents(
        self, head: str, unresolved: Sequence[tuple[Change, Exclusion]], change_by_id: dict[str, Change]
    ) -> dict[str, ConflictResolution]:
        """Return the resolutions of the authors and the integrator agent, by change id."""
        kind, timeout = self._request.agent, self._request.conflict_timeout
        if kind is None and self._plan.agent not in (*KINDS_WITHOUT_ANSWERS, SCRIPTED):
            kind = self._plan.agent
        items = [_make_item(head, change, exclusion, change_by_id) for change, exclusion in unresolved]
        limits = self._plan.limits.replace(timeout=timeout, deadline=timeout)
        return resolve_conflicts(
            self._fleet,
            self._run,
            self._plan,
            limits,
            items,
            kind if self._request.rounds > 1 else None,
            make_row_announcer(self._report),
        )

    def _try_resolution(
        self,
        result: TrialResult,
        head: str,
        change: Change,
        exclusion: Exclusion,
        change_by_id: dict[str, Change],
        resolution: ConflictResolution,
    ) -> tuple[TrialResult, list[ResolvedConflict], list[Exclusion]]:
        """Return the branch with a resolution, if no further test fails with it; else the exclusion."""
        assert resolution.tree is not None
        others = [change_by_id[name] for name in exclusion.others if name in change_by_id]
        rebuilt = rebuild_change(self._local, self._run.repo, change, head, resolution.tree, others)
        after = self._trial.choose_changes([*result.chosen, rebuilt])
        if after.exclusions:
            cause = next(
                (excluded for excluded in after.exclusions if excluded.change == change.id), after.exclusions[0]
            )
            reason = f"{exclusion.reason}; {describe_resolver(resolution.by)} merged it, but {cause.reason}"
            return result, [], [exclusion.replace(reason=reason, proof=cause.proof)]
        new_failures = sorted(after.regressions.keys() - result.regressions.keys())
        if new_failures:
            test = new_failures[0]
            reason = f"{exclusion.reason}; {describe_resolver(resolution.by)} merged it, but then {test} fails: {after.regressions[test]}"
            return result, [], [exclusion.replace(reason=reason)]
        record_resolution(self._local, self._run, head, change, resolution.tree)
        self._report(f"{describe_resolver(resolution.by)} resolved the conflict of {change.id}")
        row = ResolvedConflict(change=change.id, by=resolution.by, agent=resolution.agent, others=exclusion.others)
        return after, [row], []


def _make_item(head: str, change: Change, exclusion: Exclusion, change_by_id: Mapping[str, Change]) -> UnmergedChange:
    """Return a conflict as agents get it: with the changes in its way, and the tests of both sides."""
    others = [change_by_id[name] for name in exclusion.others if name in change_by_id]
    tests = {test for side in (change, *others) for test in list_claimed_tests(side)}
    return UnmergedChange(change=change, head=head, others=others, tests=sorted(tests))
