import pytest

from courier import Client
from courier.testing import serve


@pytest.fixture
def client():
    with serve() as url:
        with Client(base_url=url) as session:
            yield session


def test_create_parcel(client):
    """Posting a parcel creates it and answers with its address."""
    response = client.post("/parcels", json={"to": "Oslo", "weight": 3})
    assert response.status_code == 201
    assert response.headers["Location"].startswith("/parcels/")


def test_unknown_parcel(client):
    """A parcel that is not there gives 404."""
    response = client.get("/parcels/999")
    assert response.status_code == 404
    assert response.json() == {"error": "no such parcel"}
