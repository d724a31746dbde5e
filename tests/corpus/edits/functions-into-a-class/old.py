from deque_of import Deque


def test_left():
    """From the left."""
    assert Deque([1, 2]).left() == 1


def test_right():
    """From the right."""
    assert Deque([1, 2]).right() == 2
