from __future__ import annotations

from mngr.e2e import E2eSession, expect


def test_borrow(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # take a book home
    library borrow Emma --by ann
    """)
    expect(e2e.run("library init")).to_succeed()
    expect(e2e.run("library add Emma --copies 2")).to_succeed()
    result = e2e.run("library borrow Emma --by ann")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("Emma: 1 of 2 left")


def test_borrow_too_many(e2e: E2eSession) -> None:
    """When all copies are out, none can be borrowed."""
    expect(e2e.run("library init")).to_succeed()
    expect(e2e.run("library add Emma --copies 2")).to_succeed()
    for name in ("ann", "bob"):
        expect(e2e.run(f"library borrow Emma --by {name}")).to_succeed()
    result = e2e.run("library borrow Emma --by eve")
    expect(result).to_fail(1)
    expect(result.stderr).to_equal("library: all copies of Emma are out")
