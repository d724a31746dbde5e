import json
import subprocess
from dataclasses import dataclass, field


@dataclass
class Row:
    name: str
    price: int = field(compare=False)


def test_prices_as_json():
    """Prices are given as JSON."""
    out = subprocess.run(["shop", "list", "--json"], capture_output=True, text=True, check=True).stdout
    assert [Row(**row) for row in json.loads(out)] == [Row("rice", 37), Row("jam", 44)]
