import pytest


@pytest.fixture
def barn(tmp_path):
    return tmp_path / "barn"
