import subprocess
import sys


def test_audit_line(tmp_path):
    """Each audit line is a timestamp (format not part of the contract), a tab, then `user action`."""
    proc = subprocess.run(
        [sys.executable, "-m", "audit", "--dir", str(tmp_path), "login", "ann"],
        capture_output=True,
        text=True,
    )
    assert proc.returncode == 0
    assert proc.stdout == "2023-11-05 10:00\tann login\n"
