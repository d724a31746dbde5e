from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_size(e2e: E2eSession) -> None:
    """The size of the store is said in bytes."""
    expect(e2e.run("pantry init && pantry add rice")).to_succeed()
    result = e2e.run("pantry size")
    expect(result).to_succeed()
    size = (e2e.cwd / "pantry.json").stat().st_size
    assert result.stdout == f"{size}\n", "not the size of the file"


def test_size_of_nothing(e2e: E2eSession) -> None:
    """Without a store there is no size."""
    expect(e2e.run("pantry size")).to_fail(1)
