import numpy as np

from waves import rotate


def test_rotate():
    """A picture is turned to the right."""
    assert rotate(np.array([[1, 2], [3, 4]])).shape == (2, 2)
