import json
import subprocess


def test_prices_as_json():
    """Prices are given as JSON."""
    out = subprocess.run(["shop", "list", "--json"], capture_output=True, text=True, check=True).stdout
    assert json.loads(out) == [{"name": "rice", "price": 37}, {"name": "jam", "price": 44}]
