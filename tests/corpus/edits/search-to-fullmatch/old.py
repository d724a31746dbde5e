import re

from mngr.e2e import E2eSession, expect


def test_version(e2e: E2eSession) -> None:
    """The version has three numbers."""
    result = e2e.run("tool --version")
    expect(result).to_succeed()
    assert re.search(r"\d+\.\d+\.\d+", result.stdout)
