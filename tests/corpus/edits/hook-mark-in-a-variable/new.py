import pytest


def pytest_collection_modifyitems(config, items):
    if config.getoption("--slow"):
        return
    skip_slow = pytest.mark.skip(reason="give --slow to run it")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip_slow)
