import pytest


def pytest_sessionfinish(session, exitstatus):
    print("done", exitstatus)
