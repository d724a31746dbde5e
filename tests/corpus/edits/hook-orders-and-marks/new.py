import pytest


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes more than a second")


def pytest_collection_modifyitems(config, items):
    for item in items:
        if "e2e" in item.nodeid:
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: "slow" in item.keywords)


@pytest.fixture
def numbers():
    return [3, 1, 2]
