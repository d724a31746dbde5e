import json
import subprocess
from pathlib import Path


def test_survey():
    """The survey has two points."""
    done = subprocess.run(["survey", "--json"], capture_output=True, text=True)
    assert done.returncode == 0
    assert json.loads(done.stdout) == {"points": 2, "unit": "m"}
