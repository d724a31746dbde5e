import pytest

from garage import Engine


@pytest.fixture
def gas_engine():
    engine = Engine("gas")
    engine.start()
    return engine.state()


def test_gas_engine(request):
    """An engine that was started runs."""
    assert request.getfixturevalue("gas_engine") == "running"
