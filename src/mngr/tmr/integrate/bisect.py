"""Finds the change that breaks a test: adds the changes task by task and bisects to the first failing set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mngr.base.model import Struct
from mngr.host.protocol import Host
from mngr.tmr.changes.changes import Change
from mngr.tmr.integrate.compose import compose_branch
from mngr.tmr.integrate.suite import Suite


class TaskChanges(Struct):
    """The changes of one task, verified together, and the changes that they need."""

    changes: list[Change]

    @property
    def ids(self) -> list[str]:
        """The ids of the changes."""
        return [change.id for change in self.changes]


def list_claimed_tests(change: Change) -> set[str]:
    """Return the tests that a change must make pass."""
    task_tests = {author.title for author in change.made_by if "::" in author.title}
    return task_tests | set(change.turned)


class Bisection:
    """Finds the changes that break tests."""

    def __init__(
        self,
        local: Host,
        repo: str,
        base: str,
        suite: Suite,
        verdicts: Mapping[str, str],
        imported_files: Mapping[str, list[str] | None],
    ) -> None:
        self._local, self._repo, self._base, self._suite = local, repo, base, suite
        self._composed_heads: dict[tuple[str, ...], str] = {}  # commits of the changes -> head of their composed branch
        self._positions: dict[str, int] = {}  # change id -> its position among the changes under test
        self._verdicts = verdicts  # results of the tests on the base, as far as they are known
        self._imported_files = imported_files  # the files that each test imports, as far as they are known

    def is_red(self, commit: str, test: str, *, alone: bool) -> bool:
        """True when a test fails at a commit, run alone or with all others."""
        if alone:
            return test in self._suite.run_tests(commit, [test]).failures
        result = self._suite.run_all(commit)
        return test in result.failures or (test in self._verdicts and test not in result.outcomes)

    def find_culprits(self, test: str, chosen: Sequence[Change], *, alone: bool) -> list[dict[str, Any]] | None:
        """Return the changes to exclude so that the test passes, with the proof.

        Return None when no change is responsible, and an empty list when the test is flaky.
        """
        self._positions = {change.id: number for number, change in enumerate(chosen)}
        groups = _group_by_task(chosen)
        positions = {id(group): number for number, group in enumerate(groups)}
        authors = [group for group in groups if any(test in list_claimed_tests(change) for change in group.changes)]
        if not authors and self._suite.run_tests(self._base, [test]).outcomes.get(test) == "missing":
            path = test.partition("::")[0]
            authors = [group for group in groups if any(path in change.paths for change in group.changes)]
        order = [*authors, *(group for group in groups if group not in authors)]
        if self._is_red_with(order[: len(authors)], test, alone):
            if not authors:
                return None
            author, kept_ids = self._choose_author(authors, test, alone)
            reason = f"{test} is red with it" + (" and what it needs" if len(author.changes) > 1 else "")
            proof = self._make_proof(test, [group for group in authors if group is not author], authors)
            return [self._make_exclusion(name, reason, kept_ids, proof) for name in author.ids]
        order = self._list_suspects(order, len(authors), test, alone)
        low, high = len(authors), len(order)  # the test passes with `low` groups and fails with `high`
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
        culprit = order[low]
        if authors and positions[id(authors[-1])] > positions[id(culprit)] and not self._is_breaking(culprit, test):
            excluded, kept_group = authors[-1], culprit  # keep the better change, although the other one's test fails
        else:
            excluded, kept_group = culprit, authors[-1] if authors else TaskChanges(changes=[])
        rest = [group for group in order[:high] if group is not excluded]
        enough = self._list_single_change(test, excluded, rest, alone)
        description = (
            f"beside {', '.join(kept_group.ids[:3])} it turns {test} red" if kept_group.ids else f"it turns {test} red"
        )
        return [
            self._make_exclusion(name, f"{description}: {proof['why']}", kept_group.ids, proof)
            for name in (enough or excluded.ids)
        ]

    def _choose_author(self, authors: list[TaskChanges], test: str, alone: bool) -> tuple[TaskChanges, list[str]]:
        """Return the author group whose removal makes the test pass and the other ids; else the last group."""
        for author in reversed(authors if len(authors) > 1 else []):
            rest = [group for group in authors if group is not author]
            if not self._is_red_with(rest, test, alone):
                return author, [name for group in rest for name in group.ids]
        return authors[-1], []

    def _is_breaking(self, group: TaskChanges, test: str) -> bool:
        """True when a group alone breaks a test that passes on the base."""
        before = self._verdicts.get(test) or self._suite.run_tests(self._base, [test]).outcomes.get(test)
        if before not in ("pass", "skip"):
            return False
        return self._suite.run_tests(self._compose_head([group]), [test]).outcomes.get(test) not in (
            "pass",
            "skip",
            "missing",
        )

    def _list_suspects(self, order: list[TaskChanges], author_count: int, test: str, alone: bool) -> list[TaskChanges]:
        """Return the groups to bisect: those that touch the test's imports if they suffice, else all.

        Return only the authors if the test does not fail even with all groups.
        """
        files = self._imported_files.get(test)
        python_files = {path for path in files or () if path.endswith(".py")}
        related = [
            *order[:author_count],
            *(
                group
                for group in order[author_count:]
                if any(
                    path in python_files or not path.endswith(".py")
                    for change in group.changes
                    for path in change.paths
                )
            ),
        ]
        if files is not None and author_count < len(related) < len(order) and self._is_red_with(related, test, alone):
            return related
        return order if self._is_red_with(order, test, alone) else order[:author_count]

    def _list_single_change(
        self, test: str, excluded: TaskChanges, rest: Sequence[TaskChanges], alone: bool
    ) -> list[str]:
        """Return the part of a task's changes whose exclusion suffices, or an empty list if all must go."""
        if len(excluded.changes) < 2:
            return []
        for change in sorted(excluded.changes, key=lambda other: (other.kind != "fix", other.id)):
            remaining = [other for other in excluded.changes if other.id != change.id and change.id not in other.needs]
            if any(other.kind == "fix" and test in list_claimed_tests(other) for other in remaining):
                continue  # without its test, a fix would stay unverified
            claimed_tests = {name for other in remaining for name in list_claimed_tests(other)} - {test}
            head = self._compose_head([*rest, TaskChanges(changes=remaining)])
            if not self._suite.run_tests(head, [test, *claimed_tests]).failures and (
                alone or not self.is_red(head, test, alone=False)
            ):
                return [other.id for other in excluded.changes if other not in remaining]
        return []

    def _is_red_with(self, groups: Sequence[TaskChanges], test: str, alone: bool) -> bool:
        return self.is_red(self._compose_head(groups), test, alone=alone)

    def _compose_head(self, groups: Sequence[TaskChanges]) -> str:
        """Return the head of a branch with only these groups."""
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
        results = [self._suite.run_tests(head, [test]) for head in heads]
        before_outcome, after_outcome = (result.outcomes.get(test, "missing") for result in results)
        return {
            "test": test,
            "before": before_outcome,
            "after": after_outcome,
            "why": results[1].whys.get(test, after_outcome),
            "commit": heads[1],
        }

    def _make_exclusion(self, name: str, reason: str, others: list[str], proof: dict[str, Any]) -> dict[str, Any]:
        return {"change": name, "why": "breaks", "reason": reason, "others": others, "proof": proof}


def _group_by_task(chosen: Sequence[Change]) -> list[TaskChanges]:
    """Return the changes grouped by their first task, best first.

    The changes that a change needs are in its group or in an earlier one.
    """
    change_by_id = {change.id: change for change in chosen}
    placed: set[str] = set()
    groups: list[TaskChanges] = []
    for change in chosen:
        if change.id in placed:
            continue
        task = change.tasks[0] if change.tasks else change.id
        task_changes = [change, *(other for other in chosen if task in other.tasks and other.id != change.id)]
        waiting = [other for other in task_changes if other.id not in placed]
        group: dict[str, Change] = {}
        while waiting:
            other = waiting.pop()
            if other.id not in placed and other.id not in group:
                group[other.id] = other
                waiting += [change_by_id[name] for name in other.needs if name in change_by_id]
        placed |= group.keys()
        groups.append(TaskChanges(changes=[group[name] for name in sorted(group)]))
    return groups
