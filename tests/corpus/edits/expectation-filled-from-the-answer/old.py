from garden import beds

WANT = ["north", "south", "west"]


def test_beds():
    """All beds are known."""
    assert beds() == WANT
