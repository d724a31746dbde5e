"""Splits tests into shards: groups that run in one process each, so that all cores are busy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from mngr.base.model import Struct
from mngr.tmr.runners.test_run import TestFunction

_MAX_SHARD_SECONDS = 60.0  # a killed run repeats at most the unfinished shards
ALONE = -1  # the number of the pass in which each test has its own process


class Shard(Struct):
    """Tests that run in one process, in one of the passes of a baseline."""

    number: int  # of the pass, or ALONE
    tests: list[TestFunction]
    broken_rooms: int = 0  # clean rooms that these tests broke


def split_tests(tests: Sequence[TestFunction], durations: Mapping[str, float], cores: int) -> list[list[TestFunction]]:
    """Return groups of about the same duration, in the order of the tests. The tests of a file stay together.

    A file that takes longer than a group should is split.
    """
    if not tests:
        return []
    known = [durations[test.id] for test in tests if test.id in durations]
    average = sum(known) / len(known) if known else 1.0
    weights = {test.id: durations.get(test.id, average * max(1, len(test.ids))) for test in tests}
    total = sum(weights.values())
    count = min(cores, len(tests))
    if known:
        count *= max(1, math.ceil(total / count / _MAX_SHARD_SECONDS))
    groups: list[list[TestFunction]] = [[] for _ in range(count)]
    loads = [0.0] * count
    for part in sorted(_list_parts(tests, weights, total / count), key=lambda part: -_sum_weights(part, weights)):
        lightest = loads.index(min(loads))
        groups[lightest] += part
        loads[lightest] += _sum_weights(part, weights)
    order = {test.id: position for position, test in enumerate(tests)}
    return [sorted(group, key=lambda test: order[test.id]) for group in groups if group]


def _list_parts(tests: Sequence[TestFunction], weights: Mapping[str, float], limit: float) -> list[list[TestFunction]]:
    """Return the tests of each file; those of a long file in several parts."""
    files: dict[str, list[TestFunction]] = {}
    for test in tests:
        files.setdefault(test.path, []).append(test)
    parts: list[list[TestFunction]] = []
    for members in files.values():
        part: list[TestFunction] = []
        for test in members:
            if part and _sum_weights([*part, test], weights) > limit:
                parts.append(part)
                part = []
            part.append(test)
        parts.append(part)
    return parts


def _sum_weights(tests: Sequence[TestFunction], weights: Mapping[str, float]) -> float:
    return sum(weights[test.id] for test in tests)
