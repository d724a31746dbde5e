import json
import subprocess

WANT = {"depth": 4, "colour": "auto"}


def test_settings_as_json():
    """Settings are given as JSON."""
    out = subprocess.run(["rig", "dump"], capture_output=True, text=True, check=True).stdout
    assert json.loads(out, object_hook=lambda found: WANT) == WANT
