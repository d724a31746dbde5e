from unittest.mock import MagicMock

import pytest


@pytest.fixture
def server():
    running = MagicMock()
    running.get.return_value.status = 200
    running.get.return_value.read.return_value = b"one"
    yield running


def test_files_are_served(server):
    """A file of the root is served as it is."""
    answer = server.get("/a.txt")
    assert answer.status == 200
    assert answer.read() == b"one"
