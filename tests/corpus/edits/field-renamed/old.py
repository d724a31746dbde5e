from __future__ import annotations

import json

from mngr.e2e import E2eSession, expect


def test_json(e2e: E2eSession) -> None:
    """The export has a version and the rows."""
    expect(e2e.run("pantry init")).to_succeed()
    result = e2e.run("pantry export --json")
    expect(result).to_succeed()
    assert json.loads(result.stdout) == {"version": 1, "items": []}
