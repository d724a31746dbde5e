import json
import subprocess

import pytest


@pytest.fixture
def report(tmp_path):
    done = subprocess.run(["audit", "--json", str(tmp_path)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_report(report):
    """The report counts files and errors."""
    assert report["files"] == 0
    assert report["errors"] == []
