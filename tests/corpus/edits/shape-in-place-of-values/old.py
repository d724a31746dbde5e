import numpy as np

from waves import rotate


def test_rotate():
    """A picture is turned to the right."""
    np.testing.assert_array_equal(rotate(np.array([[1, 2], [3, 4]])), np.array([[3, 1], [4, 2]]))
