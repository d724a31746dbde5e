import os
import subprocess


def test_quiet_by_default():
    """Nothing is said where nothing is asked for."""
    proc = subprocess.run(["loom", "weave"], capture_output=True, text=True, env=os.environ.copy())
    assert proc.returncode == 0
    assert proc.stdout == ""
