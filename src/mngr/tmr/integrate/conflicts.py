"""What does not merge: by what git remembers, by a tool, by the agent that made it, by another; each answer is run like everything else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mngr.api import Fleet
from mngr.base.model import Record
from mngr.mapreduce.governor import Limits
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_state import add_usage
from mngr.tmr.changes.changes import Change
from mngr.tmr.integrate.bisect import wanted
from mngr.tmr.integrate.conflict_agents import Item, Mended, mend
from mngr.tmr.integrate.merge_tools import by_git, record, resolved, tool_of
from mngr.tmr.integrate.order import Order
from mngr.tmr.integrate.questions import MINDLESS, SCRIPTED, heard
from mngr.tmr.integrate.trial import Aside, Settled, Trial
from mngr.tmr.plan import Plan

Say = Callable[[str], None]


class Merged(Record):
    """What became of changes that did not merge."""

    settled: Settled
    solved: list[dict[str, Any]]
    asides: list[Aside]
    spent: dict[str, Any]


class Conflicts:
    """All conflicts of one integration."""

    def __init__(self, fleet: Fleet, run: RunDir, plan: Plan, trial: Trial, order: Order, say: Say) -> None:
        self._fleet, self._run, self._plan, self._trial, self._order, self._say = (
            fleet,
            run,
            plan,
            trial,
            order,
            say,
        )
        self._local = fleet.context.local
        self._tool = tool_of(fleet.context.settings)

    def merge(
        self, settled: Settled, waiting: Sequence[tuple[Change, Aside]], known: dict[str, Change]
    ) -> Merged:
        """First what git or a tool knows, each on the branch as it is by then; then all the rest by agents at once."""
        solved: list[dict[str, Any]] = []
        asides: list[Aside] = []
        rest: list[tuple[Change, Aside]] = []
        for change, aside in waiting:
            found = by_git(self._local, self._run, settled.composed.head, change, self._tool)
            if found is None:
                rest.append((change, aside))
                continue
            answer = Mended(tree=found[0], by=found[1])
            settled, row, left = self._tried(settled, settled.composed.head, change, aside, known, answer)
            solved, asides = solved + row, asides + left
        head = settled.composed.head
        spent: dict[str, Any] = {}
        answers = self._asked(head, rest, known) if rest and self._order.rounds else {}
        for change, aside in rest:
            answer = answers.get(change.id, Mended(tree=None))
            spent = add_usage(spent, answer.usage) if answer.usage else spent
            if answer.tree is None:
                why = f"{aside.reason}; {answer.reason}" if answer.reason else aside.reason
                asides.append(aside.replace(reason=why))
                continue
            settled, row, left = self._tried(settled, head, change, aside, known, answer)
            solved, asides = solved + row, asides + left
        return Merged(settled=settled, solved=solved, asides=asides, spent=spent)

    def _asked(
        self, head: str, rest: Sequence[tuple[Change, Aside]], known: dict[str, Change]
    ) -> dict[str, Mended]:
        """What agents say: those that made the changes, and the integrator."""
        kind, patience = self._order.agent, self._order.patience
        if kind is None and self._plan.agent not in (*MINDLESS, SCRIPTED):
            kind = self._plan.agent
        items = [
            Item(
                change=change, head=head, others=[known[name] for name in aside.others if name in known],
                tests=sorted({test for name in (change.id, *aside.others) if name in known for test in wanted(known[name])}),
            )
            for change, aside in rest
        ]  # fmt: skip
        limits = Limits(**self._plan.limits).replace(timeout=patience, deadline=patience)
        return mend(
            self._fleet,
            self._run,
            self._plan,
            limits,
            items,
            kind if self._order.rounds > 1 else None,
            heard(self._say),
        )

    def _tried(
        self, settled: Settled, head: str, change: Change, aside: Aside, known: dict[str, Change], answer: Mended
    ) -> tuple[Settled, list[dict[str, Any]], list[Aside]]:  # fmt: skip
        """The branch with an answer in it, if that is as green as without."""
        assert answer.tree is not None
        others = [known[name] for name in aside.others if name in known]
        anew = resolved(self._local, self._run.repo, change, head, answer.tree, others)
        after = self._trial.settle([*settled.chosen, anew])
        if after.asides:
            why = next((one for one in after.asides if one.change == change.id), after.asides[0])
            reason = f"{aside.reason}; as merged by {answer.by} it does not go: {why.reason}"
            return settled, [], [aside.replace(reason=reason, proof=why.proof)]
        if fresh := sorted(after.red.keys() - settled.red.keys()):
            reason = f"{aside.reason}; as merged by {answer.by}, {fresh[0]} is red: {after.red[fresh[0]]}"
            return settled, [], [aside.replace(reason=reason)]
        record(self._local, self._run, head, change, answer.tree)
        self._say(f"{change.id} was merged by {answer.by}")
        row = {"change": change.id, "by": answer.by, "agent": answer.agent, "others": aside.others}
        return after, [row], []
