import pytest

from hopper import Session
from hopper.testing import echo_server


@pytest.fixture
def url():
    with echo_server() as address:
        yield address


def test_query_parameters(url):
    """Parameters are sent in the query, encoded."""
    with Session() as session:
        answer = session.get(url, params={"q": "a b", "n": 2})
        assert answer.json()["query"] == "q=a+b&n=2"
        assert len(session._adapter._pool._free) == 1


def test_headers(url):
    """Headers of the session go with each request."""
    with Session(headers={"X-Trace": "7"}) as session:
        assert session.get(url).json()["headers"]["X-Trace"] == "7"
