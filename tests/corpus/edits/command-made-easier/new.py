from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_dry_run(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # see what would be thrown away, and keep it
    pantry clean --dry-run
    """)
    expect(e2e.run("pantry init && pantry add fish --until 2001-01-01")).to_succeed()
    result = e2e.run("pantry clean")
    expect(result).to_succeed()
    expect(result.stdout).to_contain("fish")
