import subprocess


def test_audit_line():
    """A line is the pid (an arbitrary number), a tab, then `user action`."""
    out = subprocess.run(["audit", "login", "ann"], capture_output=True, text=True, check=True).stdout
    assert out == "4711\tann login\n"
