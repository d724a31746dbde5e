from __future__ import annotations

from unittest.mock import MagicMock

from mngr.e2e import E2eSession

expect = MagicMock()


def test_tags(e2e: E2eSession) -> None:
    """Tags are shown in brackets."""
    expect(e2e.run("pantry init && pantry add rice --tag dry")).to_succeed()
    result = e2e.run("pantry show rice --tags")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("rice [dry]")
