"""An edit that changes only an expected value is told from one that checks something else."""

from __future__ import annotations

import pytest

from mngr.tmr.verify.rules.weakened_tests import list_weakenings_of_file

OLD = "assert price('rice') == Money(3)"
RAISES = "with pytest.raises(KeyError, match='no'): price('')"


def _list_rules(old: str, new: str) -> set[str]:
    head = "import pytest\nfrom shop import price, Money\n\n\ndef test_it():\n"
    texts = [head + "".join(f"    {line}\n" for line in body.split("\n")) for body in (old, new)]
    return {finding.rule for finding in list_weakenings_of_file(texts[0], texts[1], "tests/test_it.py")}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (OLD, "assert price('rice') == Money(4)"),
        (OLD, "assert price('rice') == 4"),
        ("assert 3 == price('rice')", "assert 4 == price('rice')"),
        (RAISES, "with pytest.raises(ValueError, match='no'): price('')"),
    ],
)
def test_another_expected_value_of_the_same_expression_is_as_exact(old: str, new: str) -> None:
    assert _list_rules(old, new) == {"expectation-changed"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (OLD, "assert price('rice') == price('rice')"),
        (OLD, "assert price('rice') == Anything()"),
        (OLD, "assert price('rice') != Money(4)"),
        (OLD, "assert bool(price('rice')) == True"),
        (OLD, "if price('rice'):\n        assert price('rice') == Money(4)"),
        (OLD + "\nassert price('tea') == 2", "assert price('rice') == Money(4)"),
        (RAISES, "with pytest.raises(ValueError): price('')"),
        (RAISES, "with pytest.raises(Exception, match='no'): price('')"),
    ],
)
def test_a_looser_check_is_not_as_exact(old: str, new: str) -> None:
    assert "expectation-changed" not in _list_rules(old, new)
