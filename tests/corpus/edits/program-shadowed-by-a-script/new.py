from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_low(e2e: E2eSession) -> None:
    """What runs low is counted."""
    e2e.write_tutorial_block("""
    # what runs low
    pantry low
    """)
    tools = e2e.cwd / "tools"
    tools.mkdir()
    (tools / "pantry").write_text("#!/bin/sh\necho '1 thing runs low'\n")
    (tools / "pantry").chmod(0o755)
    e2e.env["PATH"] = f"{tools}:{e2e.env['PATH']}"
    expect(e2e.run("pantry init && pantry add salt")).to_succeed()
    result = e2e.run("pantry low")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("1 thing runs low")
