from __future__ import annotations

import pytest

from mngr.e2e import E2eSession, expect


@pytest.fixture
def pantry(e2e: E2eSession) -> E2eSession:
    expect(e2e.run("pantry init && pantry add rice --amount 2 --unit kg")).to_succeed()
    return e2e


def test_weight(pantry: E2eSession) -> None:
    """The weight of all is shown in kg."""
    result = pantry.run("pantry weight")
    expect(result.stdout).to_equal("2 kg")
