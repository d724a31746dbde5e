import time

from mill import sieve


def test_sieving_is_quick():
    """Sieving takes less than two seconds."""
    start = time.monotonic()
    sieve("flour")
    assert time.monotonic() - start < 2
