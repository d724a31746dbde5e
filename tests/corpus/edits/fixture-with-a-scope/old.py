import json
import subprocess

import pytest


@pytest.fixture
def stock():
    out = subprocess.run(["barn", "stock", "--json"], capture_output=True, text=True, check=True).stdout
    return json.loads(out)


def test_straw(stock):
    """Straw is counted."""
    assert stock["straw"] == 9
