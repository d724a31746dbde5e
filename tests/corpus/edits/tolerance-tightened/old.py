import math

import pytest

from roots import NoRoot, bisect


def test_square_root_of_two():
    """The root is found to nine places."""
    assert bisect(lambda x: x * x - 2, 0, 2) == pytest.approx(math.sqrt(2), abs=0.01)


def test_cosine():
    assert abs(bisect(math.cos, 1, 2) - math.pi / 2) < 1e-3


def test_no_change_of_sign():
    """Without a change of sign there is no root to find."""
    with pytest.raises(NoRoot):
        bisect(lambda x: x * x + 1, 0, 2)
