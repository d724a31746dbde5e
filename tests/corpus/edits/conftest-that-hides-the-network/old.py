import pytest


@pytest.fixture
def station():
    return "http://127.0.0.1:9"
