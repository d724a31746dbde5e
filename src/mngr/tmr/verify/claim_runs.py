"""Runs of claimed commits: in one room, which is made when the first is needed; what a shelf knows is not run again."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable

from mngr.host import git
from mngr.tmr.cleanroom.rooms import Broken, Room, Rooms
from mngr.tmr.cleanroom.test_run import Test, TestRun, command, run_test
from mngr.tmr.result_cache import Shelf
from mngr.tmr.verify.request import Claim, How

_RULES = 1  # goes up when the same run may now be judged otherwise


class Bench:
    """Runs in one room at the claimed commit, which is made when the first is needed; what a shelf knows is not run."""

    def __init__(
        self, stack: contextlib.ExitStack, rooms: Rooms, claim: Claim, how: How, source: str | None, shelf: Shelf | None,
        keep: str | None, done: Callable[[Test, TestRun], None] | None,
    ) -> None:  # fmt: skip
        self.source, self.repo, self.shelf, self.keep = source, source or rooms.repo, shelf, keep
        self._stack, self._rooms, self._claim, self._how, self._done = stack, rooms, claim, how, done
        names = git.must(
            rooms.fleet.context.local,
            self.repo,
            "rev-parse",
            f"{claim.commit}^{{commit}}",
            f"{claim.commit}^{{tree}}",
        )
        self.commit, self.tree = names.split("\n")
        self._room: Room | None = None
        self._breaks = 0

    def all(self, seen: list[TestRun], *, trace: bool) -> tuple[list[TestRun], list[TestRun]]:
        """The test k times, those that were seen counted, and each witness once, in an order that the seed decides."""
        claim, how = self._claim, self._how
        order = [claim.test] * max(1, how.k - len(seen)) + [
            one for one in claim.witnesses if one.id != claim.test.id
        ]
        random.Random(how.seed).shuffle(order)
        own: list[TestRun] = [*seen]
        others: list[TestRun] = []
        for number, one in enumerate(order):
            run = self.run(
                one,
                number,
                resolve=number == 0,
                trace=trace and one.id == claim.test.id and len(own) == len(seen),
            )
            (own if one.id == claim.test.id else others).append(run)
        return own, others

    def run(
        self,
        test: Test,
        number: int,
        *,
        files: dict[str, str | None] | None = None,
        resolve: bool = False,
        trace: bool = False,
    ) -> TestRun:
        """One run; `files` are other than the commit has them, `trace` asks which lines are run."""
        how, seed = self._how, self._how.seed + number
        key = [
            _RULES,
            self.tree,
            command(how.pytest, how.args, test.id),
            seed,
            files,
            resolve,
            trace,
            self._rooms.about,
        ]
        known = self.shelf.get(key) if self.shelf is not None else None
        if isinstance(known, dict):
            run = TestRun.from_dict(known)
        else:
            run = self._fresh(test, seed, files, resolve, trace)
            if self.shelf is not None:
                self.shelf.put(key, run.to_dict())
        if self._done is not None and files is None:
            self._done(test, run)
        return run

    def _fresh(
        self, test: Test, seed: int, files: dict[str, str | None] | None, resolve: bool, trace: bool
    ) -> TestRun:
        how = self._how
        while True:
            try:
                return run_test(
                    self.room(), how.pytest, test, args=how.args, timeout=how.timeout, seed=seed, resolve=resolve, program=how.program,
                    files=files, trace=trace, keep=self.keep if resolve else None,
                )  # fmt: skip
            except Broken:
                self._breaks += 1
                if self._breaks > 1:
                    raise
                self._stack.close()
                self._room = None

    def room(self) -> Room:
        """The room."""
        if self._room is None:
            self._room = self._stack.enter_context(self._rooms.room(self.commit, self.source))
        return self._room
