from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_export(e2e: E2eSession) -> None:
    """Everything is written to a file, a line each."""
    expect(e2e.run("pantry init && pantry add rice && pantry add jam")).to_succeed()
    result = e2e.run("pantry export all.csv")
    expect(result).to_succeed()
    expect(e2e.cwd).to_match_tree({"all.csv": "name,amount\njam,1\nrice,1\n"})
