import pytest
from fastapi.testclient import TestClient

from inn.app import app


@pytest.fixture
def client():
    with TestClient(app) as made:
        yield made


def test_empty_room(client):
    """An empty room has no guest."""
    answer = client.get("/rooms/8")
    assert answer.status_code == 200
    assert answer.json() == {"room": 8, "guest": None}
