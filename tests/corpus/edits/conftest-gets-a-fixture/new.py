import pytest


@pytest.fixture
def barn(tmp_path):
    return tmp_path / "barn"


@pytest.fixture
def home(tmp_path, monkeypatch):
    place = tmp_path / "home"
    place.mkdir()
    monkeypatch.setenv("HOME", str(place))
    return place
