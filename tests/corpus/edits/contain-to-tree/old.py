from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_export(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # all of it in a file
    pantry export pantry.csv
    """)
    expect(e2e.run("pantry init && pantry add rice --shelf top")).to_succeed()
    result = e2e.run("pantry export pantry.csv")
    expect(result).to_succeed()
    assert (e2e.cwd / "pantry.csv").exists()
