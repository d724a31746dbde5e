from __future__ import annotations

import json

from mngr.e2e import E2eSession, expect


def test_json(e2e: E2eSession) -> None:
    """Everything is known of a thing: name, amount and shelf."""
    expect(e2e.run("pantry init && pantry add rice --amount 3 --shelf top")).to_succeed()
    result = e2e.run("pantry show rice --json")
    expect(result).to_succeed()
    assert json.loads(result.stdout) == {"name": "rice", "amount": 3, "shelf": "top"}
