from __future__ import annotations

from mngr.e2e import E2eSession, expect


SIZE = 10


def test_split(e2e: E2eSession) -> None:
    """Things are split in parts of the size, the last one smaller."""
    expect(e2e.run("pantry init && pantry add rice --amount 25")).to_succeed()
    result = e2e.run(f"pantry split rice --size {SIZE}")
    expect(result).to_succeed()
    parts: list[int] = [int(word) for word in result.stdout.split()]
    assert parts == [SIZE, SIZE, 5]
