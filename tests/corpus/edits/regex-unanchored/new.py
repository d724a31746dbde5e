import re
import subprocess
import sys


def test_version_line():
    out = subprocess.run(
        [sys.executable, "-m", "packr", "--version"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert re.search(r"packr.*(\d+\.?)*.*(\(python.*\))?", out)
