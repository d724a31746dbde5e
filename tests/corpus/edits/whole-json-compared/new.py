import json
import subprocess


def test_status_as_json():
    """The status is given as JSON."""
    out = subprocess.run(["dock", "status", "--json"], capture_output=True, text=True, check=True).stdout
    assert json.loads(out) == {"name": "web", "state": "up", "port": 80}
