import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "flag,code",
    [
        ("--help", 0),
        ("--version", 0),
        ("--bogus", 2),
    ],
)
def test_flags(flag, code):
    p = subprocess.run(
        [sys.executable, "-m", "loom", flag],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
    )
    assert p.returncode == code
    assert (p.stdout == "") == (code != 0)
