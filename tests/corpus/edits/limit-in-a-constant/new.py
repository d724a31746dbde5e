import time

from mill import sieve

MOST_SECONDS = 2


def timed(what):
    start = time.monotonic()
    what()
    return time.monotonic() - start


def test_sieving_is_quick():
    """Sieving takes less than two seconds."""
    assert timed(lambda: sieve("flour")) < MOST_SECONDS
