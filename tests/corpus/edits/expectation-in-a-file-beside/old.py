import subprocess
from pathlib import Path


def test_licence():
    """The licence is printed."""
    out = subprocess.run(["loom", "licence"], capture_output=True, text=True, check=True).stdout
    assert out == "You may weave.\nYou may not tear.\nThere is no warranty.\n"
