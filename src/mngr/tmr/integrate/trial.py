"""Which changes go together: the branch of all is run; where it is red, who made it so is put aside with the proof, until it is as green as the base."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mngr.base.model import Record
from mngr.host.protocol import Host
from mngr.tmr.changes.changes import Change
from mngr.tmr.changes.selection import along
from mngr.tmr.integrate.bisect import Search, wanted
from mngr.tmr.integrate.commit_checks import Steps
from mngr.tmr.integrate.compose import Composed, compose
from mngr.tmr.integrate.suite import ALL, CHECK, Suite, Tried
from mngr.tmr.prepare.root_causes import volatile

Say = Callable[[str], None]


_LONG = 30.0  # seconds of a suite that is worth a look at only what the changes touch, before all of it


class Before(Record):
    """How tests stand without any change, as far as that is known."""

    verdicts: dict[str, str]  # pass | fail | flaky | skip
    loaded: dict[str, list[str] | None] = {}  # files that each imports; None: not known


class Aside(Record):
    """A change that is not in the branch, and why."""

    change: str
    why: str  # conflict | breaks | needs | redder | wish
    reason: str
    others: list[str] = []
    proof: dict[str, Any] | None = None


class Settled(Record):
    """A branch that was run, and what is not in it."""

    composed: Composed
    chosen: list[Change]
    asides: list[Aside]
    red: dict[str, str]  # for which nobody could be found
    red_before: list[str]  # as it was, and still is
    flaky: list[str]
    partly: int  # commits at which not every test was run that may depend on them


class Trial:
    """Runs branches; everything it asks of the suite is kept by tree."""

    def __init__(self, local: Host, repo: str, base: str, suite: Suite, before: Before, say: Say) -> None:
        self._local, self._repo, self._base, self._suite, self._say = local, repo, base, suite, say
        self._before = before
        self._doubtful = {test for test, word in before.verdicts.items() if word == "flaky"}
        self.flaky: set[str] = set()  # seen here to come and go
        self._search = Search(local, repo, base, suite, before.verdicts, before.loaded)
        self._steps = Steps(suite, before.loaded)
        self._unexplained: dict[str, str] = {}
        self._alike: dict[str, dict[str, str]] = {}  # what else is red with the same words, by test
        self._watched: list[str] = []  # red when the whole suite was last run

    def settle(self, changes: Sequence[Change]) -> Settled:
        """As many of the changes as go together, no redder than the base and none of its commits redder than the one before."""
        chosen = list(changes)
        asides: list[Aside] = []
        late: set[str] = set()  # moved to the end, for others must come first
        while True:
            composed = compose(self._local, self._repo, self._base, chosen)
            found = [_conflict(row) for row in composed.conflicts]
            if not found:
                found = self._breaking(composed, chosen)
            if not found and (step := self._steps.redder(composed, self._base)) is not None:
                if step.change not in late:
                    late.add(step.change)
                    moved = {step.change, *(change.id for change, _ in along(chosen, {step.change}))}
                    chosen.sort(key=lambda change: change.id in moved)
                    continue
                found = [Aside(**step.to_dict())]
            if not found:
                return self._settled(composed, chosen, asides)
            for one in found:
                if one.proof is not None:
                    self._say(f"{one.change} is put aside: {one.reason}")
            found += needing(chosen, {one.change for one in found})
            asides += found
            chosen = [change for change in chosen if change.id not in {one.change for one in found}]

    def red_with(self, changes: Sequence[Change], tests: set[str]) -> set[str]:
        """Of tests those that are red with all of these changes that merge."""
        return set(self._suite.some(compose(self._local, self._repo, self._base, changes).head, tests).red)

    def _settled(self, composed: Composed, chosen: list[Change], asides: list[Aside]) -> Settled:
        red = self._red(composed.head, chosen) if composed.commits else {}
        flaky = self.flaky | self._doubtful - self._unexplained.keys()
        known = self._unexplained.keys() | flaky
        still = sorted(test for test in red if test not in known and not test.startswith(CHECK))
        return Settled(
            composed=composed, chosen=chosen, asides=asides, red={test: why for test, why in red.items() if test in self._unexplained},
            red_before=still, flaky=sorted(flaky), partly=self._steps.partly,
        )  # fmt: skip

    def _red(self, commit: str, chosen: Sequence[Change]) -> dict[str, str]:
        """What is red at a commit of all that is asked of it; a test that is gone, though nobody worked on its file, is."""
        checks = self._suite.some(commit, [CHECK + name for name in self._suite.checks])
        tried = self._suite.whole(commit)
        files = {path for change in chosen for path in change.paths} if ALL not in tried.outcomes else None
        gone = {
            test: "it is not run any more" for test in self._before.verdicts
            if files is not None and test not in tried.outcomes and test.partition("::")[0] not in files | tried.outcomes.keys()
        }  # fmt: skip
        return {**gone, **tried.red, **checks.red}

    # What is red and was not

    def _breaking(self, composed: Composed, chosen: Sequence[Change]) -> list[Aside]:
        """Who made the branch red; none when it is as green as the base, or when nobody can be found."""
        if not composed.commits:
            return []
        few = None
        if self._suite.expected > _LONG:
            few = self._steps.affected([path for change in chosen for path in change.paths])
        for some in (self._watched, few or [], None):  # red a moment ago; touched; all
            if some is not None and not some:
                continue
            self._say(
                f"{'the whole suite' if some is None else f'tests: {len(some)}'}, changes: {len(chosen)}"
            )
            while bad := self._looked(composed, some, chosen):
                if found := self._blamed(composed, chosen, bad):
                    return found
        return []

    def _blamed(self, composed: Composed, chosen: Sequence[Change], bad: dict[str, str]) -> list[Aside]:
        """Who is put aside for what is red; what comes and goes, or is nobody's, is not looked at again."""
        found: list[Aside] = []
        left = list(chosen)
        for test, why in bad.items():
            composed = compose(self._local, self._repo, self._base, left) if found else composed
            if found and not self._search.is_red(composed.head, test, alone=why != _TOGETHER):
                continue
            culprit = self._search.find(test, left, alone=why != _TOGETHER)
            if culprit == []:
                self.flaky.add(test)
                continue
            if culprit is None:
                self._unexplained |= self._alike[test]
                continue
            new = [Aside(**row) for row in culprit]
            new += needing(left, {one.change for one in new})
            found += new
            left = [change for change in left if change.id not in {one.change for one in found}]
        return found

    def _looked(
        self, composed: Composed, some: Sequence[str] | None, chosen: Sequence[Change]
    ) -> dict[str, str]:
        """What of it somebody is to be found for; the same tests are looked at first the next time."""
        head = composed.head
        red = self._red(head, chosen) if some is None else self._suite.some(head, some).red
        bad = self._bad(head, red, chosen)
        self._watched = sorted(test for test in red if test != ALL) if bad else []
        return bad

    def _bad(self, head: str, red: dict[str, str], chosen: Sequence[Change]) -> dict[str, str]:
        """What is red, was green or is said to be green, and is red whenever we look: one of each kind, if that is so of one."""
        asked = {test for change in chosen for test in wanted(change)}
        known = self.flaky | self._unexplained.keys() | (self._doubtful - asked)
        red = {test: why for test, why in red.items() if test not in known}
        unknown = [test for test in red if test not in asked and test not in self._before.verdicts]
        was = self._suite.some(self._base, unknown).outcomes
        kinds: dict[str, dict[str, str]] = {}
        for test, why in sorted(red.items()):
            if test in asked or not self._was_red(test, was):
                kinds.setdefault(volatile(why), {})[test] = why
        firsts = {next(iter(kind)): next(iter(kind.values())) for kind in kinds.values()}
        others = {test: why for kind in kinds.values() for test, why in kind.items() if test not in firsts}
        self._alike = {test: kind for kind in kinds.values() for test in kind}
        return self._sure(head, firsts, asked) or self._sure(head, others, asked)

    def _sure(self, head: str, red: dict[str, str], asked: set[str]) -> dict[str, str]:
        """Those of them that are red whenever we look, or whenever all are run and were not so before."""
        alone = set(self._suite.some(head, red).red)
        self.flaky |= alone - self._suite.steady(head, alone, red=True)
        bad = {test: why for test, why in red.items() if test in alone - self.flaky}
        beside = {
            test for test in red if test not in alone and (test in asked or test not in self._suite.whole(self._base).red)
        }  # fmt: skip
        tried = self._suite.again(head) if beside else Tried(outcomes={})
        gone = self._before.verdicts.keys() - tried.outcomes.keys()
        again = beside & (tried.red.keys() | gone)
        self.flaky |= beside - again
        return dict(sorted({**bad, **dict.fromkeys(again, _TOGETHER)}.items()))

    def _was_red(self, test: str, outcomes: dict[str, str]) -> bool:
        """Whether it is red on the base: by the baseline, else by what was tried there; a new one was not."""
        known = self._before.verdicts.get(test)
        if known is not None:
            return known == "fail"
        return outcomes.get(test) not in ("pass", "skip", "missing", None)


_TOGETHER = "only beside others"


def _conflict(row: Any) -> Aside:
    return Aside(
        change=row.change, why="conflict" if row.paths else "needs", reason=row.reason, others=row.others
    )


def needing(chosen: Sequence[Change], gone: set[str]) -> list[Aside]:
    """What does not go without what is gone."""
    return [
        Aside(change=change.id, why="needs", reason=f"{why}, which is not there", others=change.needs)
        for change, why in along(chosen, gone)
    ]
