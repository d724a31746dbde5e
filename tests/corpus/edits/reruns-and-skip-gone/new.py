import threading

import pytest

from latch import Latch


def test_waits_for_all():
    """wait() returns when all have counted down."""
    latch = Latch(3)
    for _ in range(3):
        threading.Thread(target=latch.count_down).start()
    assert latch.wait(timeout=2) is True


def test_wait_times_out():
    """wait() gives False when time is up."""
    assert Latch(1).wait(timeout=0.05) is False


def test_below_zero():
    with pytest.raises(ValueError):
        Latch(-1)
