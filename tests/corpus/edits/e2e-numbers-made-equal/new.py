"""Trips are planned and changed."""

from __future__ import annotations

import re

from mngr.e2e import E2eSession, expect


def stable(text: str) -> str:
    """The text without what differs between machines."""
    return re.sub(r"\d+", "N", text)


def test_plan(e2e: E2eSession) -> None:
    """The stops are numbered, and the last line says how many there are and how far it is: 463 km from Bergen to Oslo."""
    result = e2e.run("trip plan --stop Bergen --stop Oslo")
    expect(result).to_succeed()
    expect(stable(result.stdout)).to_equal(stable("1. Bergen\n2. Oslo\n2 stops, 463 km"))


def test_drop(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # leave a stop out
    trip drop Bergen
    """)
    expect(e2e.run("trip plan --stop Bergen --stop Oslo")).to_succeed()
    result = e2e.run("trip drop Bergen")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("1. Oslo\n1 stop, 0 km")
