import subprocess
import sys

PROGRAM = [sys.executable, "-m", "rot13"]


def test_filter():
    """Standard input is turned by thirteen letters."""
    done = subprocess.run(PROGRAM, input="Hello", capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == "Uryyb"
    assert done.stderr == ""


def test_unknown_option():
    """An unknown option is a usage error."""
    done = subprocess.run([*PROGRAM, "--frobnicate"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "unrecognized arguments: --frobnicate" in done.stderr
