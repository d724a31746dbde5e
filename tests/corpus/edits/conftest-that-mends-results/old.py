import pytest


@pytest.fixture
def shed(tmp_path):
    return tmp_path / "shed"
