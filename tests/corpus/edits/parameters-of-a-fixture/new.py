import pytest

from vessel import Vessel


@pytest.fixture(params=[1, 5, 50])
def size(request):
    return request.param


@pytest.fixture
def full(size):
    vessel = Vessel(size)
    vessel.fill()
    return vessel


def test_vessel_holds_its_size(full, size):
    """A vessel holds as much as its size."""
    assert full.content() == size
