import csv
import json

from contacts import export


def test_export(tmp_path):
    """All contacts are written."""
    export([("Ann", 31)], tmp_path / "all.json")
    assert json.loads((tmp_path / "all.json").read_text()) == [{"name": "Ann", "age": 31}]
