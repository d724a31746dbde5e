from __future__ import annotations

import pytest

from mngr.e2e import E2eSession, expect


@pytest.fixture(autouse=True)
def tasks(e2e: E2eSession) -> None:
    expect(e2e.run("todo init && todo add 'buy milk' && todo add 'call Ann' --due friday")).to_succeed()


def test_list(e2e: E2eSession) -> None:
    e2e.write_tutorial_block("""
    # what there is to do
    todo list
    """)
    result = e2e.run("todo list")
    expect(result).to_succeed()
    expect(result.stdout).to_match_lines("""
        ID  TASK      DUE
        1   buy milk  -
        2   call Ann  friday
    """)


def test_done(e2e: E2eSession) -> None:
    """What is done is not listed."""
    expect(e2e.run("todo done 1")).to_succeed()
    expect(e2e.run("todo list").stdout).not_to_contain("buy milk")
