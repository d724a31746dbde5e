import json
import subprocess

import pytest


@pytest.fixture
def inventory():
    subprocess.run(["barn", "--version"], capture_output=True, text=True, check=True)
    return {"hay": 40, "oats": 3}


def test_hay(inventory):
    """Hay is counted in bales."""
    assert inventory["hay"] == 40
