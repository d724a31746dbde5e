"""Finds the change that breaks a test: adds the changes task by task and bisects to the first failing set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mngr.base.model import Struct
from mngr.host.protocol import Host
from mngr.tmr.changes.collect_changes import Change
from mngr.tmr.changes.integration_record import Exclusion, FailureProof
from mngr.tmr.integrate.compose import compose_branch
from mngr.tmr.integrate.suite import Suite


class TaskChanges(Struct):
    """The changes of one task, verified together, and the changes that they need."""

    changes: list[Change]

    @property
    def ids(self) -> list[str]:
        """The ids of the changes."""
        return [change.id for change in self.changes]

    @property
    def paths(self) -> set[str]:
        """The files that the changes touch."""
        return {path for change in self.changes for path in change.paths}

    @property
    def claimed_tests(self) -> set[str]:
        """The tests that the changes must make pass."""
        return {test for change in self.changes for test in list_claimed_tests(change)}


def list_claimed_tests(change: Change) -> set[str]:
    """Return the tests that a change must make pass."""
    task_tests = {author.title for author in change.made_by if "::" in author.title}
    return task_tests | set(change.fixed_tests)


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
        self._local = local
        self._repo = repo
        self._base = base
        self._suite = suite
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

    def find_breaking_changes(self, test: str, chosen: Sequence[Change], *, alone: bool) -> list[Exclusion] | None:
        """Return the changes to exclude so that the test passes, with the proof.

        Return None when no change is responsible, and an empty list when the test is flaky.
        """
        self._positions = {change.id: number for number, change in enumerate(chosen)}
        groups = _group_by_task(chosen)
        authors = self._list_authors(groups, test)
        if self._is_red_with(authors, test, alone):
            return self._exclude_author(authors, test, alone) if authors else None
        others = [group for group in groups if group not in authors]
        suspects = self._list_suspects(authors, others, test, alone)
        if not suspects:
            return None
        passing, culprit = self._bisect(authors, suspects, test, alone)
        if not self._suite.list_stable(self._compose_head(passing), [test], red=False, times=1):
            return []
        excluded, kept = culprit, authors[-1] if authors else TaskChanges(changes=[])
        if authors and groups.index(authors[-1]) > groups.index(culprit) and not self._is_breaking(culprit, test):
            excluded, kept = authors[-1], culprit  # keep the better change, although the other one's test fails
        rest = [group for group in (*passing, culprit) if group is not excluded]
        excluded_ids = self._list_single_change(test, excluded, rest, alone) or excluded.ids
        proof = self._make_proof(test, passing, [*passing, culprit])
        other_changes = f" together with {', '.join(kept.ids[:3])}" if kept.ids else ""
        reason = f"it breaks {test}{other_changes}: {proof.why}"
        return _make_exclusions(excluded_ids, reason, kept.ids, proof)

    def _list_authors(self, groups: Sequence[TaskChanges], test: str) -> list[TaskChanges]:
        """Return the groups that claim the test, or that touch its file if the test is new."""
        authors = [group for group in groups if test in group.claimed_tests]
        if authors or self._suite.run_tests(self._base, [test]).outcomes.get(test) != "missing":
            return authors
        path = test.partition("::")[0]
        return [group for group in groups if path in group.paths]

    def _exclude_author(self, authors: list[TaskChanges], test: str, alone: bool) -> list[Exclusion]:
        """Return the exclusions of a group that claims the test, although the test fails with it."""
        author, kept_ids = self._choose_author(authors, test, alone)
        reason = f"{test} fails with it" + (" and with the changes that it needs" if len(author.changes) > 1 else "")
        rest = [group for group in authors if group is not author]
        return _make_exclusions(author.ids, reason, kept_ids, self._make_proof(test, rest, authors))

    def _bisect(
        self, authors: Sequence[TaskChanges], suspects: Sequence[TaskChanges], test: str, alone: bool
    ) -> tuple[list[TaskChanges], TaskChanges]:
        """Return the longest sequence of groups with which the test passes, and the next group, which breaks it."""
        order = [*authors, *suspects]
        low, high = len(authors), len(order)  # the test passes with `low` groups and fails with `high`
        while high - low > 1:
            middle = (low + high) // 2
            if self._is_red_with(order[:middle], test, alone):
                high = middle
            else:
                low = middle
        return order[:low], order[low]

    def _choose_author(self, authors: list[TaskChanges], test: str, alone: bool) -> tuple[TaskChanges, list[str]]:
        """Return the author group whose removal makes the test pass and the other ids; else the last group."""
        if len(authors) > 1:
            for author in reversed(authors):
                rest = [group for group in authors if group is not author]
                if not self._is_red_with(rest, test, alone):
                    return author, [name for group in rest for name in group.ids]
        return authors[-1], []

    def _is_breaking(self, group: TaskChanges, test: str) -> bool:
        """True when a group alone breaks a test that passes on the base."""
        before = self._verdicts.get(test) or self._suite.run_tests(self._base, [test]).outcomes.get(test)
        if before not in ("pass", "skip"):
            return False
        after = self._suite.run_tests(self._compose_head([group]), [test]).outcomes.get(test)
        return after not in ("pass", "skip", "missing")

    def _list_suspects(
        self, authors: Sequence[TaskChanges], others: list[TaskChanges], test: str, alone: bool
    ) -> list[TaskChanges]:
        """Return the groups to bisect: those that touch the test's imports if they suffice, else all.

        Return an empty list if the test does not fail even with all groups.
        """
        related = self._list_related(others, test)
        if 0 < len(related) < len(others) and self._is_red_with([*authors, *related], test, alone):
            return related
        return others if self._is_red_with([*authors, *others], test, alone) else []

    def _list_related(self, groups: Sequence[TaskChanges], test: str) -> list[TaskChanges]:
        """Return the groups that touch code that the test imports, or other files. Empty if the imports are unknown."""
        files = self._imported_files.get(test)
        if files is None:
            return []
        imported = set(files)
        return [group for group in groups if any(path in imported or not path.endswith(".py") for path in group.paths)]

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
            remaining_group = TaskChanges(changes=remaining)
            head = self._compose_head([*rest, remaining_group])
            if self._suite.run_tests(head, {test, *remaining_group.claimed_tests}).failures:
                continue
            if alone or not self.is_red(head, test, alone=False):
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

    def _make_proof(self, test: str, before: Sequence[TaskChanges], after: Sequence[TaskChanges]) -> FailureProof:
        """Return the outcomes of the test with both sequences of groups."""
        head = self._compose_head(after)
        result_before = self._suite.run_tests(self._compose_head(before), [test])
        result_after = self._suite.run_tests(head, [test])
        outcome = result_after.outcomes.get(test, "missing")
        return FailureProof(
            test=test,
            before=result_before.outcomes.get(test, "missing"),
            after=outcome,
            why=result_after.reasons.get(test, outcome),
            commit=head,
        )


def _make_exclusions(ids: Sequence[str], reason: str, others: list[str], proof: FailureProof) -> list[Exclusion]:
    return [Exclusion(change=name, why="breaks", reason=reason, others=others, proof=proof) for name in ids]


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
        waiting = [change.id, *(other.id for other in chosen if task in other.tasks)]
        ids: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in change_by_id and name not in placed | ids:
                ids.add(name)
                waiting += change_by_id[name].needs
        placed |= ids
        groups.append(TaskChanges(changes=[change_by_id[name] for name in sorted(ids)]))
    return groups
