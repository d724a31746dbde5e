import pytest

from resize import fit


@pytest.mark.parametrize(("size", "wanted"), [((100, 50), (50, 25)), ((30, 30), (30, 30))])
def test_fit(size, wanted):
    """A picture is made to fit, never larger."""
    assert fit(size, longest=50) == wanted


def test_fit_keeps_the_shape():
    """A square stays a square."""
    width, height = fit((400, 400))
    assert width == height
