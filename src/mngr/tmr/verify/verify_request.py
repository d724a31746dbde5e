"""The request to verify a claim, and its options."""

from __future__ import annotations

from mngr.base.model import Struct
from mngr.tmr.runners.pytest.runner import PytestOptions
from mngr.tmr.runners.test_run import TestFunction, TestRun
from mngr.tmr.verify.claim import ClaimedChange
from mngr.tmr.verify.rules.path_policy import DEFAULT_POLICY, PathPolicy


class VerifyRequest(Struct):
    """A claim: at this commit, made on that base, this test passes."""

    test: TestFunction
    commit: str
    base: str
    source: str | None = None  # the repository with the commit, if it is not that of the clean rooms
    affected_tests: list[TestFunction] = []
    claimed_changes: list[ClaimedChange] | None = None  # name the kinds of the commits; None: no agent claims anything
    is_one_of_many: bool = False  # other requests cover the other tests of the commit
    is_shared: bool = False  # the claim is about a root cause that several tests share
    base_run: TestRun | None = None  # the test's run on the base, if there was one


class VerifyOptions(PytestOptions):
    """How claims are verified."""

    runs: int = 3
    program: str | None = None
    level: str = "quick"
    seed: int = 0
    policy: PathPolicy = DEFAULT_POLICY
    trusts_setup: bool = False  # verify also a commit that changes files which decide how the project is set up
