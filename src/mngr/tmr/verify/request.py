"""What is to be verified, and how."""

from __future__ import annotations

from typing import Any

from mngr.base.model import Struct
from mngr.tmr.cleanroom.test_run import TEST_TIMEOUT, TestFunction, TestRun
from mngr.tmr.verify.legacy.policy import DEFAULT, Policy


class VerifyRequest(Struct):
    """What somebody says: at this commit, made on that base, this test passes."""

    test: TestFunction
    commit: str
    base: str
    affected_tests: list[TestFunction] = []
    claim: dict[str, Any] = {}  # the agent's own words, for the kinds of its commits
    is_one_of_many: bool = False  # others speak for the other tests of the commit
    is_shared: bool = False  # it is about a cause that several tests share
    base_run: TestRun | None = None  # how the test ended on the base, if that was seen


class VerifyOptions(Struct):
    """How claims are checked."""

    pytest: list[str]
    args: list[str] = []
    runs: int = 3
    timeout: float = TEST_TIMEOUT
    program: str | None = None
    level: str = "quick"
    seed: int = 0
    policy: Policy = DEFAULT
    mutant_count: int = 20
    trusts_setup: bool = False  # the project's set-up may be run as the commit has it, which is outside of walls
