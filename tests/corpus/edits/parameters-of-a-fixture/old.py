import pytest

from vessel import Vessel


@pytest.mark.parametrize("size", [1, 5, 50])
def test_vessel_holds_its_size(size):
    """A vessel holds as much as its size."""
    vessel = Vessel(size)
    vessel.fill()
    assert vessel.content() == size
