import numpy as np

from waves import spectrum


def test_spectrum():
    """The spectrum of a sine has one peak."""
    np.testing.assert_allclose(spectrum([0, 1, 0, -1]), [0, 2, 0, 2], rtol=1e-7)
