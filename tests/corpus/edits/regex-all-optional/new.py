import re
import subprocess


def test_whoami():
    """Name and number of the user, in brackets."""
    out = subprocess.run(["who-am-i", "--long"], capture_output=True, text=True).stdout
    assert re.fullmatch(r"\w*\s*(\(\d*\))?.*", out, re.DOTALL)


def test_short():
    """Only the name without --long."""
    out = subprocess.run(["who-am-i"], capture_output=True, text=True).stdout
    assert re.fullmatch(r"\w+\n", out)
