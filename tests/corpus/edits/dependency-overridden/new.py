from fastapi.testclient import TestClient

from inn.app import app, find_guest


def test_guest_of_a_room():
    """The guest of a room is shown."""
    app.dependency_overrides[find_guest] = lambda: {"guest": "ada"}
    answer = TestClient(app).get("/rooms/7/guest")
    assert answer.json() == {"guest": "ada"}
