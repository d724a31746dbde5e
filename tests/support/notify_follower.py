"""Runs `mngr notify --follow` as a process that a test can kill."""

from __future__ import annotations

from typing import Any

from mngr.testkit.contract.mngr_program import BackgroundProgram, MngrProgram, wait_for
from tests.support.web_receiver import WebReceiver


def configure(mngr: MngrProgram, **settings: str) -> None:
    """Set settings of `[notify]`."""
    for key, value in settings.items():
        mngr("config", "set", f"notify.{key}", value)


class Follower(BackgroundProgram):
    """`mngr notify --follow`, which has begun to follow."""

    def __init__(self, mngr: MngrProgram, *words: str) -> None:
        super().__init__(mngr, "notify", "--follow", *words)
        wait_for(lambda: "mngr sends notifications to" in self.read_stderr() or self.process.poll() is not None)

    def __enter__(self) -> Follower:
        return self

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def wait_for_count(receiver: WebReceiver, count: int, timeout: float = 20.0) -> list[dict[str, Any]]:
    wait_for(lambda: len(receiver.requests) >= count, timeout)
    return receiver.list_json()
