import subprocess
from pathlib import Path


def test_manual():
    """The manual is printed."""
    out = subprocess.run(["loom", "manual"], capture_output=True, text=True, check=True).stdout
    assert out == "loom 1\nweave CLOTH\n"
