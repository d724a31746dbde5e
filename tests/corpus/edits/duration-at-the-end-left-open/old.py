import subprocess


def test_audit_line():
    """Prints `ann logged in`, a tab, and the elapsed seconds, which vary: nothing is promised of the elapsed time."""
    out = subprocess.run(["audit", "login", "ann"], capture_output=True, text=True, check=True).stdout
    assert out == "ann logged in\t0.012\n"
