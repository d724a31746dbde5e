import pytest


@pytest.fixture
def sample(tmp_path):
    path = tmp_path / "sample.txt"
    path.write_text("one\ntwo\n")
    return path
