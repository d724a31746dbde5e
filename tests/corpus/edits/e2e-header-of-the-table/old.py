from __future__ import annotations

import pytest

from mngr.e2e import E2eSession, expect


@pytest.fixture(autouse=True)
def fleet(e2e: E2eSession) -> None:
    expect(e2e.run("fleet add van-1 --seats 3 && fleet add bus-1 --seats 40")).to_succeed()


def test_list(e2e: E2eSession) -> None:
    """The columns are VEHICLE and SEATS; the rows are sorted by vehicle."""
    result = e2e.run("fleet list")
    expect(result).to_succeed()
    expect(result.stdout).to_match_lines("""
        NAME     SEATS
        bus-1    40
        van-1    3
    """)
