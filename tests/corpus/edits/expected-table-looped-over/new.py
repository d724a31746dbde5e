from units import convert

EXPECTED = {
    (1, "km", "m"): 1000,
    (1, "m", "cm"): 100,
    (5, "cm", "mm"): 50,
}


def test_lengths():
    """Lengths are converted."""
    for (amount, old, new), want in EXPECTED.items():
        assert convert(amount, old, new) == want, f"{amount} {old} in {new}"
