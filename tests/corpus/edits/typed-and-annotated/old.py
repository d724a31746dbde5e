import json
import subprocess


def status(name):
    out = subprocess.run(["dock", "status", name, "--json"], capture_output=True, text=True, check=True).stdout
    return json.loads(out)


def test_status_of_the_web():
    """The status has the state."""
    assert status("web")["state"] == "up"
