"""Watching agents: what it costs to wait."""

from __future__ import annotations

import time

from mngr.fleet import Fleet
from tests.conftest import Mngr


def test_waiting_for_nobody_takes_no_time_of_a_processor(mngr: Mngr) -> None:
    watch = Fleet(home=str(mngr.home)).watch(quick=0.05, slow=0.1)
    used, began = time.process_time(), time.monotonic()
    assert watch.wait(0.5) is None
    assert time.monotonic() - began >= 0.5
    assert time.process_time() - used < 0.1
