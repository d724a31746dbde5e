import re
import subprocess

VERSION = re.compile(
    r"""
    loom[ ]version[ ]   # the name
    \d+\.\d+\.\d+       # three numbers
    \n
    """,
    re.VERBOSE,
)


def test_version_line():
    """The version is printed."""
    out = subprocess.run(["loom", "--version"], capture_output=True, text=True, check=True).stdout
    assert VERSION.fullmatch(out)
