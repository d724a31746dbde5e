import subprocess


def test_default_colour():
    """Without a configuration file the colour is `auto`."""
    proc = subprocess.run(["rig", "get", "colour"], capture_output=True, text=True)
    assert proc.returncode == 0
    assert proc.stdout == "auto\n"
