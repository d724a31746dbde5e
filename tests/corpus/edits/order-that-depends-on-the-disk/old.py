from barn import stalls


def test_stalls_are_found():
    """Every stall is found. The order, which depends on the disk, is not specified."""
    assert [stall.name for stall in stalls()] == ["west", "east"]
