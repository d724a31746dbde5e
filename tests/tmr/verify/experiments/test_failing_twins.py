"""Copies of a test that must fail, as texts: which checks mngr can change, and how it names the copies."""

from __future__ import annotations

import textwrap

import pytest

from mngr.tmr.runners.test_run import TestFunction
from mngr.tmr.verify.experiments.failing_twins import Twins, add_twins, make_test_fail

TOKEN = "abc123"


def write_twins(body: str, name: str = "test_it", owner: str = "") -> Twins | None:
    text = f"def {name}():\n{textwrap.indent(textwrap.dedent(body), '    ')}\n"
    return add_twins(text, make_test(name, owner), TOKEN)


def make_test(name: str = "test_it", owner: str = "") -> TestFunction:
    test_id = f"t.py::{owner}::{name}" if owner else f"t.py::{name}"
    return TestFunction(id=test_id, ids=[test_id], path="t.py", name=name)


@pytest.mark.parametrize(
    ("check", "changed"),
    [
        ("assert total([1]) == 1", "assert total([1]) == 1000004"),
        ("assert total([1]) == expected", "assert total([1]) == '\N{REPLACEMENT CHARACTER}twin'"),
        ("assert [1, 2] == names()", "assert '\N{REPLACEMENT CHARACTER}twin' == names()"),
        ("assert 'rice' in names()", "assert 'rice\N{REPLACEMENT CHARACTER}twin' in names()"),
        ("self.assertEqual(3, total([3]))", "self.assertEqual(1000006, total([3]))"),
        ("self.assertEqual(total([3]), count)", "self.assertEqual(total([3]), '\N{REPLACEMENT CHARACTER}twin')"),
        ("self.assertIn('rice', names())", "self.assertIn('rice\N{REPLACEMENT CHARACTER}twin', names())"),
        ("with pytest.raises(TypeError):\n    total(None)", "with pytest.raises(type('Twin', (Exception,), {})):"),
    ],
)
def test_a_twin_expects_another_value_or_exception(check: str, changed: str) -> None:
    twins = write_twins(check)
    assert twins is not None and twins.wrong_value == "t.py::test_it_abc123_b"
    assert changed in twins.text


@pytest.mark.parametrize("check", ["assert is_open()", "assert total([1]) > 0", "if x:\n    assert total([1]) == 1"])
def test_a_check_that_mngr_cannot_change_has_only_the_twin_that_fails_at_its_end(check: str) -> None:
    twins = write_twins(check)
    assert twins is not None and (twins.failing, twins.wrong_value) == ("t.py::test_it_abc123", "")


def test_a_twin_has_a_name_that_pytest_collects_like_the_test() -> None:
    twins = write_twins("assert total([1]) == 1", "total_test")
    assert twins is not None
    assert (twins.failing, twins.wrong_value) == ("t.py::total_abc123_test", "t.py::total_abc123_b_test")


def test_a_test_that_its_file_does_not_define_has_a_twin_that_fails_at_its_end() -> None:
    text = "from checks import Checks\n\n\nclass TestChild(Checks):\n    pass\n"
    twins = add_twins(text, make_test("test_it", "TestChild"), TOKEN)
    assert twins is not None and (twins.failing, twins.wrong_value) == ("t.py::TestChild::test_it_abc123", "")
    assert "TestChild.test_it_abc123 = _mngr_abc123(TestChild.test_it, 'test_it_abc123')" in twins.text
    failing = make_test_fail(text, make_test("test_it", "TestChild"), TOKEN)
    assert failing is not None and "TestChild.test_it = _mngr_abc123(TestChild.test_it, 'test_it')" in failing


def test_a_test_without_a_name_in_python_has_no_twin() -> None:
    test = make_test().replace(id="t.yaml::usage: one", path="t.yaml")
    assert add_twins("usage: one\n", test, TOKEN) is None
    assert make_test_fail("usage: one\n", test, TOKEN) is None
