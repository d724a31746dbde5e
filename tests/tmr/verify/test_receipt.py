"""Receipts list every experiment, including those that mngr did not make."""

from __future__ import annotations

from typing import Any

import pytest

from mngr.base.json_structs import decode, encode
from mngr.tmr.verify.receipt import Receipt, list_experiments
from mngr.tmr.verify.red_green import RedGreenProof


def make_receipt(**fields: Any) -> Receipt:
    return Receipt(
        test="t.py::t", verdict="confirmed", reason="", commit="c" * 40, command=["pytest"], runs=1, **fields
    )


def list_outcomes(receipt: Receipt) -> dict[str, str]:
    return {row.name: row.outcome for row in list_experiments(receipt)}


def test_a_receipt_names_the_experiments_that_were_not_made() -> None:
    receipt = make_receipt()
    assert set(list_outcomes(receipt).values()) == {"not_examined"}
    assert all(experiment.reason for experiment in list_experiments(receipt))


@pytest.mark.parametrize(
    ("needed", "outcome"), [([True, True], "passed"), ([True, False], "failed"), ([True, None], "unclear")]
)
def test_the_red_green_experiment_fails_if_one_fix_is_not_needed(needed: list[bool | None], outcome: str) -> None:
    proofs = [RedGreenProof(fixes=["c"], is_needed=is_needed) for is_needed in needed]
    assert list_outcomes(make_receipt(proofs=proofs))["red_green"] == outcome


@pytest.mark.parametrize(
    ("fixes", "needed", "reason"),
    [
        ([["c1"], ["c2"]], True, "the test fails without each of 2 fixes"),
        ([["c1", "c2"]], True, "the test fails without the 2 fixes together"),
        ([["c1"]], False, "the test also passes without the fix c1"),
        ([["c1"]], None, "mngr could not revert the fix c1: later commits build on it"),
    ],
)
def test_the_red_green_experiment_says_what_mngr_saw_and_its_cost(
    fixes: list[list[str]], needed: bool | None, reason: str
) -> None:
    why = "later commits build on it" if needed is None else ""
    proofs = [RedGreenProof(fixes=names, is_needed=needed, reason=why, trials=1, seconds=0.5) for names in fixes]
    row = list_experiments(make_receipt(proofs=proofs))[-1]
    assert (row.reason, row.trials, row.seconds) == (reason, len(fixes), 0.5 * len(fixes))


def test_a_receipt_is_read_as_it_was_written() -> None:
    receipt = make_receipt(proofs=[RedGreenProof(fixes=["c"], is_needed=True)])
    assert decode(Receipt, encode(receipt)) == receipt == receipt.replace(reason="")
