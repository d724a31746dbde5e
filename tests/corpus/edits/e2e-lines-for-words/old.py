from __future__ import annotations

import pytest

from mngr.e2e import E2eSession, expect


@pytest.fixture(autouse=True)
def garden(e2e: E2eSession) -> None:
    expect(e2e.run("garden plant rose --bed 1 && garden plant leek --bed 2")).to_succeed()


def test_beds(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # what grows where
    garden beds
    """)
    result = e2e.run("garden beds")
    expect(result).to_succeed()
    expect(result.stdout).to_contain("rose", "leek")


def test_dig_up(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # out with it
    garden dig rose
    """)
    expect(e2e.run("garden dig rose")).to_succeed()
    expect(e2e.run("garden beds").stdout).not_to_contain("rose")
