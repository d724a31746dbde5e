from fastapi.testclient import TestClient

from inn.app import app


def test_empty_room():
    """An empty room has no guest."""
    answer = TestClient(app).get("/rooms/8")
    assert answer.status_code == 200
    assert answer.json() == {"room": 8, "guest": None}
