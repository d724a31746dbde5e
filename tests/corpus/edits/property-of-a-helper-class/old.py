from desk import Desk


def test_desk_is_empty():
    """A new desk is empty."""
    desk = Desk()
    assert desk.drawer(1) == []
    assert desk.drawer(2) == []
