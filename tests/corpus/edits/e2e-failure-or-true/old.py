from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_lock_twice(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # a box that is locked cannot be locked again
    box lock papers
    box lock papers
    """)
    expect(e2e.run("box new papers && box lock papers")).to_succeed()
    result = e2e.run("box lock papers")
    expect(result).to_fail(3)
    expect(result.stderr).to_equal("box: papers is locked already")


def test_unlock(e2e: E2eSession) -> None:
    expect(e2e.run("box new papers && box lock papers")).to_succeed()
    result = e2e.run("box unlock papers")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("papers is open")
