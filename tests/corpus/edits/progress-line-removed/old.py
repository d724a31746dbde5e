from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_import(e2e: E2eSession) -> None:
    """Things are taken in from a spreadsheet, and counted."""
    e2e.write_tutorial_block("""
    # take in a spreadsheet
    pantry import shop.csv
    """)
    (e2e.cwd / "shop.csv").write_text("rice,1\njam,2\n")
    expect(e2e.run("pantry init")).to_succeed()
    result = e2e.run("pantry import shop.csv")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("2 things came in")
    expect(result.stderr).to_match(r"\[#+\] 100%")
    expect(e2e.run("pantry list --names").stdout).to_equal("jam\nrice")
