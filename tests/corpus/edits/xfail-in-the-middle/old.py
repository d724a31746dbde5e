import json

import pytest

from mngr.e2e import E2eSession, expect


@pytest.fixture(autouse=True)
def ready(e2e: E2eSession) -> None:
    expect(e2e.run("notes init")).to_succeed()


def test_json(e2e: E2eSession) -> None:
    """Notes come as JSON with title and tags."""
    expect(e2e.run("notes add 'buy milk' --tag home")).to_succeed()
    result = e2e.run("notes list --json")
    expect(result).to_succeed()
    assert json.loads(result.stdout) == [{"title": "buy milk", "tags": ["home"]}]
