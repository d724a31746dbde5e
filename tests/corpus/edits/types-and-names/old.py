from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_split(e2e):
    """Things are split in parts of the size, the last one smaller."""
    expect(e2e.run("pantry init && pantry add rice --amount 25")).to_succeed()
    r = e2e.run("pantry split rice --size 10")
    expect(r).to_succeed()
    assert [int(x) for x in r.stdout.split()] == [10, 10, 5]
