import pytest
import weather


@pytest.fixture
def station():
    return "http://127.0.0.1:9"


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(weather, "fetch", lambda url: {"temp": 21})
