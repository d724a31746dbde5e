import pytest

from garage import Engine


@pytest.fixture
def gas_engine():
    return "running"


def test_gas_engine(request):
    """An engine that was started runs."""
    assert request.getfixturevalue("gas_engine") == "running"
