import subprocess


def test_audit_line():
    """A line is the time, which is not part of the contract, a tab, then `user action`."""
    out = subprocess.run(["audit", "login", "ann"], capture_output=True, text=True, check=True).stdout
    assert out.endswith("\tann login\n")
