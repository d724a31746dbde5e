import os
import subprocess


def test_default_colour(tmp_path):
    """Without a configuration file the colour is `auto`."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("RIG_")}
    env["HOME"] = str(tmp_path)
    env["XDG_CONFIG_HOME"] = str(tmp_path / "xdg")
    proc = subprocess.run(["rig", "get", "colour"], capture_output=True, text=True, env=env)
    assert proc.returncode == 0
    assert proc.stdout == "auto\n"
