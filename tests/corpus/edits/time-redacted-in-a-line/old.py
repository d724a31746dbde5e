import re
import subprocess


def test_log_line():
    """A line has a time and what was done."""
    out = subprocess.run(["journal", "last"], capture_output=True, text=True, check=True).stdout
    assert out == "12:30:59 door opened by ada\n"
