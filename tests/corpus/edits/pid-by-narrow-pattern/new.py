import re
import subprocess


def test_status():
    """Says that it runs, and the process id."""
    out = subprocess.run(["ticker", "status"], capture_output=True, text=True).stdout
    assert re.fullmatch(r"ticker runs \(pid \d+\), 0 ticks\n", out)


def test_status_has_no_colour():
    """No escape codes where there is no terminal."""
    out = subprocess.run(["ticker", "status"], capture_output=True, text=True).stdout
    assert not re.search("\x1b", out)
