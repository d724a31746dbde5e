import json
import subprocess

import pytest


@pytest.fixture(scope="module")
def stock():
    done = subprocess.run(["barn", "stock", "--json"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_straw(stock):
    """Straw is counted."""
    assert stock["straw"] == 9
