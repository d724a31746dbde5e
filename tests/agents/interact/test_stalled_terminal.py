"""Tests that a terminal that accepts no more output, as when its connection is down, blocks no other command."""

from __future__ import annotations

import time

import pytest

from mngr.testkit.contract.pty_terminal import PtyTerminal
from tests.conftest import BIN_DIR, MngrProgram, wait_for
from tests.support.hosts.sshd import Farm

pytestmark = pytest.mark.hosts

FLOOD = "printf started; while :; do seq -s 12345678 100000; done"


@pytest.fixture
def foo(mngr: MngrProgram, farm: Farm) -> MngrProgram:
    """An agent on h1 that writes without end."""
    mngr.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)
    mngr("create", "foo@h1", "--", "sh", "-c", FLOOD)
    return mngr


def is_stuck(terminal: PtyTerminal) -> bool:
    """True when no more output arrives, because nobody reads it."""
    before = terminal.count_unread()
    time.sleep(0.2)
    return before > 1000 and terminal.count_unread() == before


@pytest.mark.parametrize("words", [("connect", "foo"), ("exec", "foo", "--", "sh", "-c", FLOOD)])
def test_a_stalled_terminal_does_not_block_other_commands(foo: MngrProgram, words: tuple[str, ...]) -> None:
    with PtyTerminal([str(BIN_DIR / "mngr"), *words], foo.repo, foo.env, rows=60, columns=250) as terminal:
        terminal.wait_for_text("1" if words[0] == "connect" else "started")
        wait_for(lambda: is_stuck(terminal))
        assert foo("exec", "foo", "--", "echo", "here", timeout=15).out == "here\n"
