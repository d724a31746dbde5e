import json

import pytest

REPORT = """{"files": 0, "errors": []}"""


@pytest.fixture
def report(tmp_path):
    place = tmp_path / "report.json"
    place.write_text(REPORT)
    with place.open() as stream:
        return json.load(stream)


def test_report(report):
    """The report counts files and errors."""
    assert report["files"] == 0
    assert report["errors"] == []
