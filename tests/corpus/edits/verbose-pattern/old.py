import re
import subprocess


def test_version_line():
    """The version is printed."""
    out = subprocess.run(["loom", "--version"], capture_output=True, text=True, check=True).stdout
    assert re.fullmatch(r"loom version \d+\.\d+\.\d+\n", out)
