"""Tests how tests are split into shards."""

from __future__ import annotations

from mngr.tmr.prepare.shards import split_tests
from mngr.tmr.runners.test_run import TestFunction


def make_tests(path: str, count: int) -> list[TestFunction]:
    return [
        TestFunction(id=f"{path}::test_{n}", ids=[f"{path}::test_{n}"], path=path, name=f"test_{n}")
        for n in range(count)
    ]


def test_the_tests_of_a_short_file_stay_together_and_in_order() -> None:
    first, second = make_tests("a.py", 5), make_tests("b.py", 5)
    assert split_tests([*first, *second], {}, 2) == [first, second]


def test_a_file_that_is_longer_than_a_shard_is_split() -> None:
    tests = make_tests("a.py", 10)
    groups = split_tests(tests, {}, 2)
    assert groups == [tests[:5], tests[5:]]


def test_known_durations_decide_the_size_of_a_shard() -> None:
    slow, quick = make_tests("slow.py", 1), make_tests("quick.py", 9)
    durations = {test.id: 1.0 for test in quick} | {slow[0].id: 9.0}
    assert split_tests([*slow, *quick], durations, 2) == [slow, quick]


def test_a_long_suite_gets_several_shards_for_each_core() -> None:
    tests = make_tests("a.py", 40)
    groups = split_tests(tests, {test.id: 10.0 for test in tests}, 2)
    assert len(groups) == 8 and [test for group in groups for test in group] == tests


def test_no_tests_need_no_shard() -> None:
    assert split_tests([], {}, 4) == []
