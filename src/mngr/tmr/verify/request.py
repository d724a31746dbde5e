"""What is to be verified, and how."""

from __future__ import annotations

from typing import Any

from mngr.base.model import Record
from mngr.tmr.cleanroom.test_run import TIMEOUT, Test, TestRun
from mngr.tmr.verify.legacy.policy import DEFAULT, Policy


class Claim(Record):
    """What somebody says: at this commit, made on that base, this test passes."""

    test: Test
    commit: str
    base: str
    witnesses: list[Test] = []
    result: dict[str, Any] = {}  # the agent's own words, for the kinds of its commits
    is_one_of_many: bool = False  # others speak for the other tests of the commit
    is_shared: bool = False  # it is about a cause that several tests share
    red: TestRun | None = None  # how the test ended on the base, if that was seen


class How(Record):
    """How claims are checked."""

    pytest: list[str]
    args: list[str] = []
    k: int = 3
    timeout: float = TIMEOUT
    program: str | None = None
    level: str = "quick"
    seed: int = 0
    policy: Policy = DEFAULT
    faults: int = 20
    trusts_setup: bool = (
        False  # the project's set-up may be run as the commit has it, which is outside of walls
    )
