from fastapi.testclient import TestClient

from inn.app import app


def test_guest_of_a_room():
    """The guest of a room is shown."""
    answer = TestClient(app).get("/rooms/7/guest")
    assert answer.json() == {"guest": "ada"}
