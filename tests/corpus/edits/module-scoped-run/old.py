import json
import subprocess

import pytest


@pytest.fixture
def report():
    proc = subprocess.run(["audit", "scan", "--json"], capture_output=True, text=True, check=True)
    return json.loads(proc.stdout)


def test_has_version(report):
    assert report["version"] == 2


def test_findings_are_sorted(report):
    ids = [f["id"] for f in report["findings"]]
    assert ids == sorted(ids)


def test_summary_counts(report):
    assert report["summary"]["count"] == len(report["findings"])
