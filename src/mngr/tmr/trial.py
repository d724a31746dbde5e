"""Which changes go together: the branch of all is run; where it is red, who made it so is put aside with the proof, until it is as green as the base."""

from __future__ import annotations

from mngr.model import Record
from mngr.tmr.cluster import volatile
from mngr.tmr.compose import compose
from mngr.tmr.culprit import Search, wanted
from mngr.tmr.steps import Steps
from mngr.tmr.suite import ALL, CHECK
from mngr.tmr.wishes import along

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from mngr.host import Host
    from mngr.tmr.changes import Change
    from mngr.tmr.compose import Composed
    from mngr.tmr.suite import Suite

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
        self.flaky = {test for test, word in before.verdicts.items() if word == "flaky"}
        self._search = Search(local, repo, base, suite, before.verdicts, before.loaded)
        self._steps = Steps(suite, before.loaded)
        self._unexplained: dict[str, str] = {}
        self._watched: list[str] = []  # red when the whole suite was last run

    def settle(self, changes: Sequence[Change]) -> Settled:
        """As many of the changes as go together, no redder than the base and none of its commits redder than the one before."""
        chosen = list(changes)
        asides: list[Aside] = []
        late: list[str] = []  # moved to the end, for others must come first
        while True:
            composed = compose(self._local, self._repo, self._base, chosen)
            found = [_conflict(row) for row in composed.conflicts]
            if not found:
                found = self._breaking(composed, chosen)
            if not found and (step := self._steps.redder(composed, self._base)) is not None:
                if step.change not in late:
                    late.append(step.change)
                    chosen.sort(key=lambda change: change.id in late)
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

    def _settled(self, composed: Composed, chosen: list[Change], asides: list[Aside]) -> Settled:
        red = self._red(composed.head) if composed.commits else {}
        known = self._unexplained.keys() | self.flaky
        still = sorted(test for test in red if test not in known and not test.startswith(CHECK))
        return Settled(
            composed=composed, chosen=chosen, asides=asides, red={test: why for test, why in red.items() if test in self._unexplained},
            red_before=still, flaky=sorted(self.flaky), partly=self._steps.partly,
        )  # fmt: skip

    def _red(self, commit: str) -> dict[str, str]:
        """What is red at a commit of all that is asked of it."""
        checks = self._suite.some(commit, [CHECK + name for name in self._suite.checks])
        return {**self._suite.whole(commit).red, **checks.red}

    # What is red and was not

    def _breaking(self, composed: Composed, chosen: Sequence[Change]) -> list[Aside]:
        """Who made the branch red; none when it is as green as the base, or when nobody can be found."""
        if not composed.commits:
            return []
        few = None
        if self._suite.expected > _LONG:
            few = self._steps.affected([path for change in chosen for path in change.paths])
        bad: dict[str, str] = {}
        for some in (self._watched, few):  # red a moment ago; touched
            if some and not bad:
                self._say(f"tests: {len(some)}, changes: {len(chosen)}")
                bad = self._looked(composed.head, self._suite.some(composed.head, some).red, chosen)
        if not bad:
            self._say(f"the whole suite, changes: {len(chosen)}")
            bad = self._looked(composed.head, self._red(composed.head), chosen)
        found: list[Aside] = []
        left = list(chosen)
        for test in bad:
            composed = compose(self._local, self._repo, self._base, left) if found else composed
            if found and not self._search.is_red(composed.head, test, alone=bad[test] != _TOGETHER):
                continue
            culprit = self._search.find(test, left, alone=bad[test] != _TOGETHER)
            if culprit == []:
                self.flaky.add(test)
                continue
            if culprit is None:
                self._unexplained[test] = bad[test]
                continue
            new = [Aside(**row) for row in culprit]
            new += needing(left, {one.change for one in new})
            found += new
            left = [change for change in left if change.id not in {one.change for one in found}]
        return found

    def _looked(self, head: str, red: dict[str, str], chosen: Sequence[Change]) -> dict[str, str]:
        """What of it somebody is to be found for; the same tests are looked at first the next time."""
        bad = self._bad(head, red, chosen)
        self._watched = sorted(test for test in red if test != ALL) if bad else []
        return bad

    def _bad(self, head: str, red: dict[str, str], chosen: Sequence[Change]) -> dict[str, str]:
        """One of each kind of what is red, was green or is said to be green, and is red whenever we look."""
        asked = {test for change in chosen for test in wanted(change)}
        red = {test: why for test, why in red.items() if test not in self.flaky | self._unexplained.keys()}
        unknown = [test for test in red if test not in asked and test not in self._before.verdicts]
        was = self._suite.some(self._base, unknown).outcomes
        kinds: dict[str, str] = {}
        for test, why in sorted(red.items()):
            if test in asked or not self._was_red(test, was):
                kinds.setdefault(volatile(why), test)
        alone = set(self._suite.some(head, kinds.values()).red)
        self.flaky |= alone - self._suite.steady(head, alone, red=True)
        bad: dict[str, str] = {}
        for test in kinds.values():
            if test in self.flaky:
                continue
            if test in alone:
                bad[test] = red[test]
            elif test not in asked and test in self._suite.whole(self._base).red:
                continue  # beside others it was red before, too
            elif test in self._suite.again(head).red:
                bad[test] = _TOGETHER
            else:
                self.flaky.add(test)
        return bad

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
