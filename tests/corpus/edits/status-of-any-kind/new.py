from fastapi.testclient import TestClient

from inn.app import app


def test_room_is_booked():
    """A room can be booked."""
    answer = TestClient(app).post("/rooms/7", json={"guest": "ada"})
    assert answer.status_code < 500
    if answer.status_code == 201:
        assert answer.json() == {"room": 7, "guest": "ada"}
