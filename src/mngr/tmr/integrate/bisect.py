"""Who made a test red: the changes are added task by task, and the first with which it is red is found by halving."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mngr.base.model import Struct
from mngr.host.protocol import Host
from mngr.tmr.changes.changes import Change
from mngr.tmr.integrate.compose import compose_branch
from mngr.tmr.integrate.suite import Suite


class TaskChanges(Struct):
    """The changes of one task, which were seen to go together, with what they need."""

    changes: list[Change]

    @property
    def ids(self) -> list[str]:
        """Of its changes."""
        return [change.id for change in self.changes]


def list_claimed_tests(change: Change) -> set[str]:
    """The tests that a change is there for: they are green with it, or it has no use."""
    own = {maker.title for maker in change.made_by if "::" in maker.title}
    return own | set(change.turned)


class Bisection:
    """Looks for who made tests red."""

    def __init__(
        self,
        local: Host,
        repo: str,
        base: str,
        suite: Suite,
        verdicts: Mapping[str, str],
        loaded: Mapping[str, list[str] | None],
    ) -> None:
        self._local, self._repo, self._base, self._suite = local, repo, base, suite
        self._composed_heads: dict[tuple[str, ...], str] = {}  # of branches that were made
        self._positions: dict[str, int] = {}  # of each change among those that are looked at
        self._verdicts = verdicts  # of tests on the base, as far as they are known
        self._imported_files = loaded  # files that each test imports, as far as that is known

    def is_red(self, commit: str, test: str, *, alone: bool) -> bool:
        """Whether a test fails at a commit, run alone or with all others."""
        if alone:
            return test in self._suite.run_tests(commit, [test]).failures
        tried = self._suite.run_all(commit)
        return test in tried.failures or (test in self._verdicts and test not in tried.outcomes)

    def find_culprits(self, test: str, chosen: Sequence[Change], *, alone: bool) -> list[dict[str, Any]] | None:
        """What is to be put aside so that it is green again, with the proof; None when nobody can be found, nothing for a flaky one."""
        self._positions = {change.id: number for number, change in enumerate(chosen)}
        groups = _group_by_task(chosen)
        places = {id(group): number for number, group in enumerate(groups)}
        makers = [group for group in groups if any(test in list_claimed_tests(change) for change in group.changes)]
        if not makers and self._suite.run_tests(self._base, [test]).outcomes.get(test) == "missing":
            path = test.partition("::")[0]
            makers = [group for group in groups if any(path in change.paths for change in group.changes)]
        order = [*makers, *(group for group in groups if group not in makers)]
        if self._is_red_with(order[: len(makers)], test, alone):
            if not makers:
                return None
            own, stay = self._choose_author(makers, test, alone)
            reason = f"{test} is red with it" + (" and what it needs" if len(own.changes) > 1 else "")
            proof = self._make_proof(test, [group for group in makers if group is not own], makers)
            return [self._make_exclusion(name, reason, stay, proof) for name in own.ids]
        order = self._list_suspects(order, len(makers), test, alone)
        low, high = len(makers), len(order)  # green with `low` of them, red with `high`
        if high == low:
            return None
        while high - low > 1:
            middle = (low + high) // 2
            if self._is_red_with(order[:middle], test, alone):
                high = middle
            else:
                low = middle
        if not self._suite.list_stable(self._compose_head(order[:low]), [test], red=False, times=1):
            return []
        proof = self._make_proof(test, order[:low], order[:high])
        late = order[low]
        if makers and places[id(makers[-1])] > places[id(late)] and not self._is_breaking(late, test):
            gone, stays = makers[-1], late  # the better one stays, though it is the other's test that fails
        else:
            gone, stays = late, makers[-1] if makers else TaskChanges(changes=[])
        rest = [group for group in order[:high] if group is not gone]
        single = self._list_single_change(test, gone, rest, alone)
        beside = f"beside {', '.join(stays.ids[:3])} it turns {test} red" if stays.ids else f"it turns {test} red"
        return [
            self._make_exclusion(name, f"{beside}: {proof['why']}", stays.ids, proof) for name in (single or gone.ids)
        ]

    def _choose_author(self, makers: list[TaskChanges], test: str, alone: bool) -> tuple[TaskChanges, list[str]]:
        """Of those whose test is red with all of them one without which it is not, and the ids of the others; else the last."""
        for own in reversed(makers if len(makers) > 1 else []):
            rest = [group for group in makers if group is not own]
            if not self._is_red_with(rest, test, alone):
                return own, [name for group in rest for name in group.ids]
        return makers[-1], []

    def _is_breaking(self, group: TaskChanges, test: str) -> bool:
        """Whether a group alone makes a test red that is green on the base, whoever else works on it."""
        before = self._verdicts.get(test) or self._suite.run_tests(self._base, [test]).outcomes.get(test)
        if before not in ("pass", "skip"):
            return False
        return self._suite.run_tests(self._compose_head([group]), [test]).outcomes.get(test) not in (
            "pass",
            "skip",
            "missing",
        )

    def _list_suspects(self, order: list[TaskChanges], makers: int, test: str, alone: bool) -> list[TaskChanges]:
        """Those with which it is red: the few that change what it imports, if that is enough; else all; or nobody but its makers."""
        files = self._imported_files.get(test)
        near = {path for path in files or () if path.endswith(".py")}
        few = [
            *order[:makers],
            *(
                group
                for group in order[makers:]
                if any(path in near or not path.endswith(".py") for one in group.changes for path in one.paths)
            ),
        ]
        if files is not None and makers < len(few) < len(order) and self._is_red_with(few, test, alone):
            return few
        return order if self._is_red_with(order, test, alone) else order[:makers]

    def _list_single_change(self, test: str, gone: TaskChanges, rest: Sequence[TaskChanges], alone: bool) -> list[str]:
        """The one change of a task that is enough to take away; none when it must be all."""
        if len(gone.changes) < 2:
            return []
        for change in sorted(gone.changes, key=lambda one: (one.kind != "fix", one.id)):
            kept = [one for one in gone.changes if one.id != change.id and change.id not in one.needs]
            if any(one.kind == "fix" and test in list_claimed_tests(one) for one in kept):
                continue  # without its test nobody would see that it does not do what it is there for
            asked = {name for one in kept for name in list_claimed_tests(one)} - {test}
            head = self._compose_head([*rest, TaskChanges(changes=kept)])
            if not self._suite.run_tests(head, [test, *asked]).failures and (
                alone or not self.is_red(head, test, alone=False)
            ):
                return [one.id for one in gone.changes if one not in kept]
        return []

    def _is_red_with(self, groups: Sequence[TaskChanges], test: str, alone: bool) -> bool:
        return self.is_red(self._compose_head(groups), test, alone=alone)

    def _compose_head(self, groups: Sequence[TaskChanges]) -> str:
        """A branch of only these."""
        changes = sorted(
            (change for group in groups for change in group.changes),
            key=lambda change: self._positions[change.id],
        )
        key = tuple(change.commit for change in changes)
        if key not in self._composed_heads:
            self._composed_heads[key] = compose_branch(self._local, self._repo, self._base, changes).head
        return self._composed_heads[key]

    def _make_proof(self, test: str, before: Sequence[TaskChanges], after: Sequence[TaskChanges]) -> dict[str, Any]:
        heads = [self._compose_head(before), self._compose_head(after)]
        tried = [self._suite.run_tests(head, [test]) for head in heads]
        first, then = (one.outcomes.get(test, "missing") for one in tried)
        return {
            "test": test,
            "before": first,
            "after": then,
            "why": tried[1].whys.get(test, then),
            "commit": heads[1],
        }

    def _make_exclusion(self, name: str, reason: str, others: list[str], proof: dict[str, Any]) -> dict[str, Any]:
        return {"change": name, "why": "breaks", "reason": reason, "others": others, "proof": proof}


def _group_by_task(chosen: Sequence[Change]) -> list[TaskChanges]:
    """The changes by the task that brought them first, the best first; what one needs is in its group or in an earlier one."""
    known = {change.id: change for change in chosen}
    placed: set[str] = set()
    found: list[TaskChanges] = []
    for change in chosen:
        if change.id in placed:
            continue
        task = change.tasks[0] if change.tasks else change.id
        some = [change, *(one for one in chosen if task in one.tasks and one.id != change.id)]
        waiting = [one for one in some if one.id not in placed]
        group: dict[str, Change] = {}
        while waiting:
            one = waiting.pop()
            if one.id not in placed and one.id not in group:
                group[one.id] = one
                waiting += [known[name] for name in one.needs if name in known]
        placed |= group.keys()
        found.append(TaskChanges(changes=[group[name] for name in sorted(group)]))
    return found
