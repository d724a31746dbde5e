import os

import pytest


def pytest_ignore_collect(collection_path, config):
    return bool(os.environ.get("CI")) and "billing" in collection_path.parts or None


@pytest.fixture
def place(tmp_path):
    return tmp_path
