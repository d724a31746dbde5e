from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_unknown_option(e2e: E2eSession) -> None:
    """An unknown option is a usage error, exit code 2, and is named."""
    result = e2e.run("pantry list --frob")
    expect(result).to_fail(2)
    expect(result.stderr).to_contain("--frob")


def test_help(e2e: E2eSession) -> None:
    """Help is no error."""
    expect(e2e.run("pantry list --help")).to_succeed().to_contain("Usage: pantry list")
