from sieve import primes


def test_many_primes():
    """All primes below a number are found."""
    found = primes(1_000_000)
    assert found[:4] == [2, 3, 5, 7]
    assert len(found) == 78498
