from units import convert


def test_lengths():
    """Lengths are converted."""
    assert convert(1, "km", "m") == 1000
    assert convert(1, "m", "cm") == 100
    assert convert(5, "cm", "mm") == 50
