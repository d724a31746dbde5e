"""Move, rename and export things."""

from __future__ import annotations

import pytest

from mngr.e2e import E2eSession, expect


@pytest.fixture(autouse=True)
def stocked(e2e: E2eSession, pantry_on_path: None) -> None:
    expect(e2e.run("pantry init && pantry add rice --shelf top && pantry add jam")).to_succeed()


def test_move(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # put it on another shelf
    pantry move rice bottom
    """)
    result = e2e.run("pantry move rice bottom")
    expect(result).to_succeed()
    expect(result.stdout).to_contain("rice is now on the shelf")


def test_rename(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # call it by another name
    pantry rename rice basmati
    """)
    result = e2e.run("pantry rename rice basmati")
    assert result is not None


def test_export(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # all of it in a file
    pantry export pantry.csv
    """)
    result = e2e.run("pantry export pantry.csv")
    expect(result).to_succeed()
