from __future__ import annotations

from mngr.e2e import E2eSession, expect


def prepare(e2e: E2eSession, files: int) -> None:
    (e2e.cwd / "left").mkdir()
    for number in range(files):
        (e2e.cwd / "left" / f"{number}.txt").write_text(f"{number}\n")


def test_sync_nothing_new(e2e: E2eSession) -> None:
    """When nothing is new, a sync of a thousand files ends within five seconds."""
    prepare(e2e, files=1000)
    first = e2e.run("mirror left right", timeout=300)
    expect(first).to_succeed()
    result = e2e.run("mirror left right", timeout=300)
    expect(result).to_succeed()
    expect(result.stdout).to_equal("0 files copied, 1000 the same")
