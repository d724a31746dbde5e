from deque_of import Deque


class TestDeque:
    """Both ends can be looked at."""

    def test_left(self):
        """From the left."""
        assert Deque([1, 2]).left() == 1

    def test_right(self):
        """From the right."""
        assert Deque([1, 2]).right() == 2
