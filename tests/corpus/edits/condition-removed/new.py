from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_trailing_newline(e2e: E2eSession) -> None:
    """What is exported ends with a newline."""
    expect(e2e.run("pantry init && pantry add rice && pantry export all.csv")).to_succeed()
    assert (e2e.cwd / "all.csv").read_text().endswith("rice,1\n")
