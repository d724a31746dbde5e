from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_merge(e2e: E2eSession) -> None:
    """Two pantries become one, amounts are added."""
    expect(e2e.run("pantry init && pantry add rice && pantry --file b.json init")).to_succeed()
    expect(e2e.run("pantry --file b.json add rice --amount 2 && pantry merge b.json")).to_succeed()
    result = e2e.run("pantry show rice")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("rice: 3")


def test_merge_nothing(e2e: E2eSession) -> None:
    """A file that is not there cannot be merged."""
    expect(e2e.run("pantry init")).to_succeed()
    expect(e2e.run("pantry merge none.json")).to_fail(1)
