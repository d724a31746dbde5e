"""Receipts list every experiment, including those that mngr did not make."""

from __future__ import annotations

from typing import Any

import pytest

from mngr.base.json_structs import decode, encode
from mngr.tmr.verify.mutation import MutationReport
from mngr.tmr.verify.receipt import Receipt
from mngr.tmr.verify.red_green import RedGreenProof
from mngr.tmr.verify.stub_audit import AuditResult


def make_receipt(**fields: Any) -> Receipt:
    return Receipt(
        test="t.py::t", verdict="confirmed", reason="", commit="c" * 40, command=["pytest"], runs=1, **fields
    )


def list_outcomes(receipt: Receipt) -> dict[str, str]:
    return {row["name"]: row["outcome"] for row in encode(receipt)["experiments"]}


def test_a_receipt_names_the_experiments_that_were_not_made() -> None:
    receipt = make_receipt()
    assert set(list_outcomes(receipt).values()) == {"not_examined"}
    assert all(experiment.reason for experiment in receipt.experiments)


@pytest.mark.parametrize(
    ("needed", "outcome"), [([True, True], "passed"), ([True, False], "failed"), ([True, None], "unclear")]
)
def test_the_red_green_experiment_fails_if_one_fix_is_not_needed(needed: list[bool | None], outcome: str) -> None:
    proofs = [RedGreenProof(fixes=["c"], is_needed=is_needed) for is_needed in needed]
    assert list_outcomes(make_receipt(proofs=proofs))["red_green"] == outcome


def test_the_full_experiments_have_their_own_outcomes() -> None:
    report = MutationReport(test="t.py::t", seed=0, state="compared")
    audit = AuditResult(test="t.py::t", outcome="vacuous", why="it passes without the program")
    outcomes = list_outcomes(make_receipt(mutation=report, audit=audit))
    assert (outcomes["mutation"], outcomes["stub_audit"]) == ("passed", "failed")


def test_a_receipt_is_read_as_it_was_written() -> None:
    receipt = make_receipt(proofs=[RedGreenProof(fixes=["c"], is_needed=True)])
    assert decode(Receipt, encode(receipt)) == receipt == receipt.replace(reason="")
