import pytest


@pytest.fixture
def cart():
    return []
