from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_first_line(e2e: E2eSession) -> None:
    """The header comes first."""
    expect(e2e.run("pantry init && pantry add rice")).to_succeed()
    # Do not skip the header, do not xfail, no time.sleep(1) and no mock: the real program prints it at once.
    result = e2e.run("pantry list")
    expect(result).to_succeed()
    assert result.stdout.splitlines()[0] == "NAME  AMOUNT"
