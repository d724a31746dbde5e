from shed import Shed


def test_shed_is_locked():
    """A new shed is locked."""
    shed = Shed()
    assert shed.locked is True
    assert shed.key() == "k1"
