from __future__ import annotations

import pytest

from mngr.e2e import E2eSession, expect


@pytest.fixture
def library(e2e: E2eSession) -> E2eSession:
    """Two copies of one book."""
    expect(e2e.run("library init")).to_succeed()
    expect(e2e.run("library add Emma --copies 2")).to_succeed()
    return e2e


def test_borrow(library: E2eSession) -> None:
    library.write_tutorial_block("""
    # take a book home
    library borrow Emma --by ann
    """)
    result = library.run("library borrow Emma --by ann")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("Emma: 1 of 2 left")


def test_borrow_too_many(library: E2eSession) -> None:
    """When all copies are out, none can be borrowed."""
    for name in ("ann", "bob"):
        expect(library.run(f"library borrow Emma --by {name}")).to_succeed()
    result = library.run("library borrow Emma --by eve")
    expect(result).to_fail(1)
    expect(result.stderr).to_equal("library: all copies of Emma are out")
