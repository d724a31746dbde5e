import pytest

from barn import Barn


@pytest.fixture
def barn():
    made = Barn()
    yield made
    made.close()


class TestBarn:
    def test_cow(self, barn):
        barn.take("cow")
        assert barn.count() == 1
        assert "cow" in barn.names()
