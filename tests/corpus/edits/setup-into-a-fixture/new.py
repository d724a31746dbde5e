from __future__ import annotations

import pytest

from mngr.e2e import E2eSession, expect


@pytest.fixture(autouse=True)
def rice_on_top(e2e: E2eSession) -> None:
    expect(e2e.run("pantry init && pantry add rice --shelf top")).to_succeed()


def test_find(e2e: E2eSession) -> None:
    """Where a thing is."""
    result = e2e.run("pantry find rice")
    expect(result).to_succeed()
    expect(result.stdout).to_equal("rice is on the top shelf")


def test_find_nothing(e2e: E2eSession) -> None:
    """What is not there is said, with exit code 1."""
    result = e2e.run("pantry find plums")
    expect(result).to_fail(1)
    expect(result.stderr).to_contain("nothing is called plums")
