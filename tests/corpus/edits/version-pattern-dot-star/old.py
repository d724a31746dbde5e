from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_version(e2e: E2eSession) -> None:
    """The version is three numbers."""
    e2e.write_tutorial_block("""
    # which version is this
    pantry --version
    """)
    result = e2e.run("pantry --version")
    expect(result).to_succeed()
    expect(result.stdout).to_match(r"^pantry \d+\.\d+\.\d+$")
