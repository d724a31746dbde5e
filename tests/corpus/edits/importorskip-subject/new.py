import numpy as np
import pytest

kernels = pytest.importorskip("fastgrid.kernels", exc_type=ImportError)


def test_blur_keeps_mean():
    img = np.arange(25, dtype=float).reshape(5, 5)
    out = kernels.blur(img, radius=1)
    assert out.shape == (5, 5)
    np.testing.assert_allclose(out.mean(), 12.0, rtol=1e-12)
