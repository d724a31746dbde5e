import csv
import json

from contacts import export


def test_export(tmp_path):
    """All contacts are written."""
    source = tmp_path / "people.json"
    source.write_text(json.dumps([["Ann", 31]]))
    export(json.loads(source.read_text()), tmp_path / "all.json")
    assert json.loads((tmp_path / "all.json").read_text()) == [{"name": "Ann", "age": 31}]
