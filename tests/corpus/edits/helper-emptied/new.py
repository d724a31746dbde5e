from __future__ import annotations

from mngr.e2e import E2eSession, expect


def lists(e2e: E2eSession, text: str) -> None:
    e2e.comment(f"the list is {text}")
    e2e.run("pantry list --names")


def test_add(e2e: E2eSession) -> None:
    """What is added is in the list."""
    expect(e2e.run("pantry init && pantry add rice")).to_succeed()
    lists(e2e, "rice")


def test_forget(e2e: E2eSession) -> None:
    """What is forgotten is not."""
    expect(e2e.run("pantry init && pantry add rice && pantry add jam && pantry forget rice")).to_succeed()
    lists(e2e, "jam")
