import urllib.request

import pytest

from tinyhttp import Server


@pytest.fixture
def server(tmp_path):
    (tmp_path / "a.txt").write_text("one")
    with Server(root=tmp_path, port=0) as running:
        yield running


def test_files_are_served(server):
    """A file of the root is served as it is."""
    with urllib.request.urlopen(f"{server.url}/a.txt") as answer:
        assert answer.status == 200
        assert answer.read() == b"one"
