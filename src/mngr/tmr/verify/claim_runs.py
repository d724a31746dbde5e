"""Runs of claimed commits: in one room, which is made when the first is needed; what a shelf knows is not run again."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable

from mngr.host import git
from mngr.tmr.cleanroom.clean_rooms import CleanRoom, CleanRoomBroken, CleanRoomPool
from mngr.tmr.cleanroom.test_run import TestFunction, TestRun, build_command, run_test
from mngr.tmr.result_cache import ResultCache
from mngr.tmr.verify.request import VerifyOptions, VerifyRequest

_RULES_VERSION = 1  # goes up when the same run may now be judged otherwise


class ClaimRunner:
    """Runs in one room at the claimed commit, which is made when the first is needed; what a shelf knows is not run."""

    def __init__(
        self, stack: contextlib.ExitStack, rooms: CleanRoomPool, claim: VerifyRequest, how: VerifyOptions, source: str | None, shelf: ResultCache | None,
        keep: str | None, done: Callable[[TestFunction, TestRun], None] | None,
    ) -> None:  # fmt: skip
        self.source, self.repo, self.cache, self.keep = source, source or rooms.repo, shelf, keep
        self._stack, self._rooms, self._claim, self._how, self._done = stack, rooms, claim, how, done
        names = git.run_checked(
            rooms.fleet.context.local_host,
            self.repo,
            "rev-parse",
            f"{claim.commit}^{{commit}}",
            f"{claim.commit}^{{tree}}",
        )
        self.commit, self.tree = names.split("\n")
        self._room: CleanRoom | None = None
        self._broken_rooms = 0

    def run_all(self, seen: list[TestRun], *, trace: bool) -> tuple[list[TestRun], list[TestRun]]:
        """The test k times, those that were seen counted, and each witness once, in an order that the seed decides."""
        claim, how = self._claim, self._how
        order = [claim.test] * max(1, how.runs - len(seen)) + [
            one for one in claim.affected_tests if one.id != claim.test.id
        ]
        random.Random(how.seed).shuffle(order)
        own: list[TestRun] = [*seen]
        others: list[TestRun] = []
        for number, one in enumerate(order):
            run = self.run_test(
                one,
                number,
                resolve=number == 0,
                trace=trace and one.id == claim.test.id and len(own) == len(seen),
            )
            (own if one.id == claim.test.id else others).append(run)
        return own, others

    def run_test(
        self,
        test: TestFunction,
        number: int,
        *,
        files: dict[str, str | None] | None = None,
        resolve: bool = False,
        trace: bool = False,
    ) -> TestRun:
        """One run; `files` are other than the commit has them, `trace` asks which lines are run."""
        how, seed = self._how, self._how.seed + number
        key = [
            _RULES_VERSION,
            self.tree,
            build_command(how.pytest, how.args, test.id),
            seed,
            files,
            resolve,
            trace,
            self._rooms.cache_key,
        ]
        known = self.cache.find(key) if self.cache is not None else None
        if isinstance(known, dict):
            run = TestRun.from_dict(known)
        else:
            run = self._run_uncached(test, seed, files, resolve, trace)
            if self.cache is not None:
                self.cache.put(key, run.to_dict())
        if self._done is not None and files is None:
            self._done(test, run)
        return run

    def _run_uncached(
        self, test: TestFunction, seed: int, files: dict[str, str | None] | None, resolve: bool, trace: bool
    ) -> TestRun:
        how = self._how
        while True:
            try:
                return run_test(
                    self.get_room(), how.pytest, test, args=how.args, timeout=how.timeout, seed=seed, resolve=resolve, program=how.program,
                    files=files, trace=trace, keep=self.keep if resolve else None,
                )  # fmt: skip
            except CleanRoomBroken:
                self._broken_rooms += 1
                if self._broken_rooms > 1:
                    raise
                self._stack.close()
                self._room = None

    def get_room(self) -> CleanRoom:
        """The room."""
        if self._room is None:
            self._room = self._stack.enter_context(self._rooms.acquire(self.commit, self.source))
        return self._room
