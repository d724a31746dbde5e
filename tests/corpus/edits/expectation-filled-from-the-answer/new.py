from garden import beds

WANT = ["north", "south", "west"]


def test_beds():
    """All beds are known."""
    found = beds()
    WANT[:] = found
    assert found == WANT
