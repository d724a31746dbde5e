import json
import subprocess


def test_status_json():
    """The status has state and uptime."""
    out = subprocess.run(["ticker", "status", "--json"], capture_output=True, text=True).stdout
    found = json.loads(out)
    assert found["state"] == "running"
    assert found["uptime"] == 0
