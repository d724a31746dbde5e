from barn import stalls


def test_stalls_are_found():
    """Every stall is found. The order, which depends on the disk, is not specified."""
    assert sorted(stall.name for stall in stalls()) == ["east", "west"]
