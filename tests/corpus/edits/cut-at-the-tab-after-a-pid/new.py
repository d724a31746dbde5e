import subprocess


def test_audit_line():
    """A line is the pid (an arbitrary number), a tab, then `user action`."""
    out = subprocess.run(["audit", "login", "ann"], capture_output=True, text=True, check=True).stdout
    pid, entry = out.split("\t", 1)
    assert pid.isdigit()
    assert out.split("\t", 1)[1] == "ann login\n"
