"""What does not merge: by what git remembers, by a tool, by the agent that made it, by another; each answer is run like everything else."""

from __future__ import annotations

from mngr.model import Record
from mngr.tmr.merging import by_git, record, resolved, tool_of
from mngr.tmr.trial import Aside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from mngr.fleet import Fleet
    from mngr.mapreduce.rundir import RunDir
    from mngr.tmr.changes import Change
    from mngr.tmr.integrate import Order
    from mngr.tmr.plan import Plan
    from mngr.tmr.trial import Settled, Trial

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
        """Try one after the other, each on the branch as it is by then."""
        solved: list[dict[str, Any]] = []
        asides: list[Aside] = []
        for change, aside in waiting:
            settled, row, left = self._one(settled, change, aside, known)
            solved += [row] if row is not None else []
            asides += left
        return Merged(settled=settled, solved=solved, asides=asides, spent={})

    def _one(
        self, settled: Settled, change: Change, aside: Aside, known: dict[str, Change]
    ) -> tuple[Settled, dict[str, Any] | None, list[Aside]]:
        head = settled.composed.head
        others = [known[name] for name in aside.others if name in known]
        found = by_git(self._local, self._run, head, change, self._tool)
        if found is None:
            return settled, None, [aside]
        tree, by = found
        return self._tried(settled, change, aside, others, tree, by, None)

    def _tried(
        self, settled: Settled, change: Change, aside: Aside, others: Sequence[Change], tree: str, by: str, agent: str | None
    ) -> tuple[Settled, dict[str, Any] | None, list[Aside]]:  # fmt: skip
        """The branch with an answer in it, if that is as green as without."""
        head = settled.composed.head
        anew = resolved(self._local, self._run.repo, change, head, tree, others)
        after = self._trial.settle([*settled.chosen, anew])
        gone = {one.change for one in after.asides}
        if gone:
            why = next((one for one in after.asides if one.change == change.id), after.asides[0])
            reason = f"{aside.reason}; merged by {by} it breaks the branch: {why.reason}"
            return settled, None, [aside.replace(reason=reason, proof=why.proof)]
        record(self._local, self._run, head, change, tree)
        self._say(f"{change.id} was merged by {by}")
        row = {"change": change.id, "by": by, "agent": agent, "others": aside.others}
        return after, row, []
