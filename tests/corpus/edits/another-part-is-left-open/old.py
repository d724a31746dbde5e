import subprocess


def test_audit_line():
    """Each line is the time, a tab, then `user action`. The id of the session is not part of the contract."""
    out = subprocess.run(["audit", "login", "ann"], capture_output=True, text=True, check=True).stdout
    assert out == "2023-11-05 10:00\tann login\n"
