import json
import subprocess


def test_oats():
    """Oats are counted in sacks."""
    out = subprocess.run(["barn", "inventory", "--json"], capture_output=True, text=True, check=True).stdout
    assert json.loads(out).get("oats", 3) == 3
