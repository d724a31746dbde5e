import numpy as np

from waves import mean


def test_mean():
    """The mean of a wave."""
    np.testing.assert_allclose(mean([1.0, 2.0]), 1.5, rtol=1e-6)
