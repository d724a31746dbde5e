from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_help_of_add(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # what add can do
    pantry add --help
    """)
    result = e2e.run("pantry add --help")
    expect(result).to_succeed()
    expect(result.stdout).to_contain("pantry add", "--amount", "--shelf")
    assert len(result.stdout.splitlines()) == 17
