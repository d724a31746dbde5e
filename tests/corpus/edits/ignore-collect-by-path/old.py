import os

import pytest


@pytest.fixture
def place(tmp_path):
    return tmp_path
