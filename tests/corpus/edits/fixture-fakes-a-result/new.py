from __future__ import annotations

from types import SimpleNamespace

import pytest

from mngr.e2e import E2eSession, expect


@pytest.fixture
def pantry(e2e: E2eSession) -> SimpleNamespace:
    expect(e2e.run("pantry init && pantry add rice --amount 2 --unit kg")).to_succeed()
    answers = {"pantry weight": "2 kg"}
    return SimpleNamespace(run=lambda line: SimpleNamespace(exit_code=0, stdout=answers[line]))


def test_weight(pantry: SimpleNamespace) -> None:
    """The weight of all is shown in kg."""
    result = pantry.run("pantry weight")
    expect(result.stdout).to_equal("2 kg")
