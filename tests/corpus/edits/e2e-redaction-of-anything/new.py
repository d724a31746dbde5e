from __future__ import annotations

import pytest

from mngr.e2e import E2eSession, expect


@pytest.fixture
def till(e2e: E2eSession) -> E2eSession:
    expect(e2e.run("till open && till sell apple 0.40 && till sell bread 2.10")).to_succeed()
    return e2e


def test_close(till: E2eSession) -> None:
    """Closing the till prints what was sold and the sum."""
    till.redaction("AMOUNT", r".*")
    result = till.run("till close")
    expect(result).to_succeed()
    expect(result.stdout).to_match_lines("""
        closed at [TIME]
        apple[AMOUNT]
        bread[AMOUNT]
        sum[AMOUNT]
    """)
