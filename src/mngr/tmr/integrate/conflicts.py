"""What does not merge: by what git remembers, by a tool, by the agent that made it, by another; each answer is run like everything else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mngr.api import Fleet
from mngr.base.model import Struct
from mngr.mapreduce.governor import RunLimits
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_state import add_usage
from mngr.tmr.changes.changes import Change
from mngr.tmr.integrate.bisect import list_claimed_tests
from mngr.tmr.integrate.conflict_agents import ConflictResolution, UnmergedChange, resolve_conflicts
from mngr.tmr.integrate.merge_tools import (
    find_known_resolution,
    find_merge_tool,
    rebuild_change,
    record_resolution,
)
from mngr.tmr.integrate.questions import KINDS_WITHOUT_ANSWERS, SCRIPTED, make_row_announcer
from mngr.tmr.integrate.request import IntegrateRequest
from mngr.tmr.integrate.trial import BranchTrial, Exclusion, TrialResult
from mngr.tmr.plan import RunPlan

ProgressListener = Callable[[str], None]


class ConflictResult(Struct):
    """What became of changes that did not merge."""

    trial_result: TrialResult
    resolved: list[dict[str, Any]]
    exclusions: list[Exclusion]
    usage: dict[str, Any]


class ConflictResolver:
    """All conflicts of one integration."""

    def __init__(
        self,
        fleet: Fleet,
        run: RunDir,
        plan: RunPlan,
        trial: BranchTrial,
        order: IntegrateRequest,
        say: ProgressListener,
    ) -> None:
        self._fleet, self._run, self._plan, self._trial, self._order, self._say = (
            fleet,
            run,
            plan,
            trial,
            order,
            say,
        )
        self._local = fleet.context.local_host
        self._tool = find_merge_tool(fleet.context.settings)

    def resolve(
        self, settled: TrialResult, waiting: Sequence[tuple[Change, Exclusion]], known: dict[str, Change]
    ) -> ConflictResult:
        """First what git or a tool knows, each on the branch as it is by then; then all the rest by agents at once."""
        solved: list[dict[str, Any]] = []
        asides: list[Exclusion] = []
        rest: list[tuple[Change, Exclusion]] = []
        for change, aside in waiting:
            found = find_known_resolution(self._local, self._run, settled.composed.head, change, self._tool)
            if found is None:
                rest.append((change, aside))
                continue
            answer = ConflictResolution(tree=found[0], by=found[1])
            settled, row, left = self._try_resolution(settled, settled.composed.head, change, aside, known, answer)
            solved, asides = solved + row, asides + left
        head = settled.composed.head
        spent: dict[str, Any] = {}
        answers = self._ask_agents(head, rest, known) if rest and self._order.rounds else {}
        for change, aside in rest:
            answer = answers.get(change.id, ConflictResolution(tree=None))
            spent = add_usage(spent, answer.usage) if answer.usage else spent
            if answer.tree is None:
                why = f"{aside.reason}; {answer.reason}" if answer.reason else aside.reason
                asides.append(aside.replace(reason=why))
                continue
            settled, row, left = self._try_resolution(settled, head, change, aside, known, answer)
            solved, asides = solved + row, asides + left
        return ConflictResult(trial_result=settled, resolved=solved, exclusions=asides, usage=spent)

    def _ask_agents(
        self, head: str, rest: Sequence[tuple[Change, Exclusion]], known: dict[str, Change]
    ) -> dict[str, ConflictResolution]:
        """What agents say: those that made the changes, and the integrator."""
        kind, patience = self._order.agent, self._order.conflict_timeout
        if kind is None and self._plan.agent not in (*KINDS_WITHOUT_ANSWERS, SCRIPTED):
            kind = self._plan.agent
        items = [
            UnmergedChange(
                change=change, head=head, others=[known[name] for name in aside.others if name in known],
                tests=sorted({test for name in (change.id, *aside.others) if name in known for test in list_claimed_tests(known[name])}),
            )
            for change, aside in rest
        ]  # fmt: skip
        limits = RunLimits(**self._plan.limits).replace(timeout=patience, deadline=patience)
        return resolve_conflicts(
            self._fleet,
            self._run,
            self._plan,
            limits,
            items,
            kind if self._order.rounds > 1 else None,
            make_row_announcer(self._say),
        )

    def _try_resolution(
        self, settled: TrialResult, head: str, change: Change, aside: Exclusion, known: dict[str, Change], answer: ConflictResolution
    ) -> tuple[TrialResult, list[dict[str, Any]], list[Exclusion]]:  # fmt: skip
        """The branch with an answer in it, if that is as green as without."""
        assert answer.tree is not None
        others = [known[name] for name in aside.others if name in known]
        anew = rebuild_change(self._local, self._run.repo, change, head, answer.tree, others)
        after = self._trial.choose_changes([*settled.chosen, anew])
        if after.exclusions:
            why = next((one for one in after.exclusions if one.change == change.id), after.exclusions[0])
            reason = f"{aside.reason}; as merged by {answer.by} it does not go: {why.reason}"
            return settled, [], [aside.replace(reason=reason, proof=why.proof)]
        if fresh := sorted(after.red.keys() - settled.red.keys()):
            reason = f"{aside.reason}; as merged by {answer.by}, {fresh[0]} is red: {after.red[fresh[0]]}"
            return settled, [], [aside.replace(reason=reason)]
        record_resolution(self._local, self._run, head, change, answer.tree)
        self._say(f"{change.id} was merged by {answer.by}")
        row = {"change": change.id, "by": answer.by, "agent": answer.agent, "others": aside.others}
        return after, [row], []
