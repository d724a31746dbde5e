import pytest


@pytest.fixture
def diesel(request):
    return request.config.garage.engine("diesel")


@pytest.mark.parametrize("kind", ["diesel", "steam"])
def test_engine_runs(kind, request):
    """An engine that was started runs."""
    engine = request.getfixturevalue(f"{kind}_engine")
    engine.start()
    assert engine.state() == "running"
