import collections

import pytest

ENDS = collections.Counter()


def pytest_runtest_logreport(report):
    if report.when == "call":
        ENDS[report.outcome] += 1


def pytest_sessionfinish(session, exitstatus):
    for outcome, count in ENDS.items():
        print(outcome, count)
    if exitstatus:
        print("failed", session.testsfailed)


@pytest.fixture
def cart():
    return []
