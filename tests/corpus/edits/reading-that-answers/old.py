import json
import subprocess


def test_settings_as_json():
    """Settings are given as JSON."""
    out = subprocess.run(["rig", "dump"], capture_output=True, text=True, check=True).stdout
    assert json.loads(out) == {"depth": 4, "colour": "auto"}
