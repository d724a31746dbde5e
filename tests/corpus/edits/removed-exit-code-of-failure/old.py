import subprocess
import sys


def run(*args):
    return subprocess.run([sys.executable, "-m", "diary", *args], capture_output=True, text=True)


def test_bad_date():
    """A date that is none is refused with exit code 2 and named."""
    done = run("show", "2024-13-01")
    assert done.returncode == 2
    assert "2024-13-01" in done.stderr


def test_good_date():
    """A day without entries is empty."""
    done = run("show", "2024-12-01")
    assert done.returncode == 0
    assert done.stdout == ""
