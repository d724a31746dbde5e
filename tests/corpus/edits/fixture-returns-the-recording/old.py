import json
import subprocess

import pytest


@pytest.fixture
def inventory():
    out = subprocess.run(["barn", "inventory", "--json"], capture_output=True, text=True, check=True).stdout
    return json.loads(out)


def test_hay(inventory):
    """Hay is counted in bales."""
    assert inventory["hay"] == 40
