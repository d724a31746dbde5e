import pytest

from again import GaveUp, retry


def test_gives_up():
    """After three attempts it gives up."""
    calls = []

    def fail():
        calls.append(1)
        raise OSError("no")

    with pytest.raises(GaveUp):
        retry(fail, attempts=3, pause=0)
    assert len(calls) == 3
