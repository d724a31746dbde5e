import pytest

NEEDS_DISPLAY = {"test_window"}


def pytest_runtest_setup(item):
    if item.name in NEEDS_DISPLAY and not item.config.getoption("--display"):
        pytest.skip("no display")
