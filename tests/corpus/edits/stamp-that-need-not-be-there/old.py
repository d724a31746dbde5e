import subprocess


def test_audit_line():
    """Each audit line is a timestamp (format not part of the contract), a tab, then `user action`."""
    out = subprocess.run(["audit", "login", "ann"], capture_output=True, text=True, check=True).stdout
    assert out == "2023-11-05 10:00\tann login\n"
