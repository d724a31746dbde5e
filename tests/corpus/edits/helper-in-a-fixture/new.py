from __future__ import annotations

from collections.abc import Callable

import pytest

from mngr.e2e import E2eSession, expect


@pytest.fixture
def says(e2e: E2eSession) -> Callable[[str, str], None]:
    def check(command: str, text: str) -> None:
        result = e2e.run(command)
        expect(result).to_succeed()
        expect(result.stdout).to_equal(text)

    return check


def test_take_all(e2e: E2eSession, says: Callable[[str, str], None]) -> None:
    """Who takes all leaves nothing."""
    expect(e2e.run("pantry init && pantry add rice --amount 2")).to_succeed()
    says("pantry take rice --amount 2", "no rice is left")
