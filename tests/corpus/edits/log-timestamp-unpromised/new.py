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
    stamp, tab, entry = proc.stdout.partition("\t")
    assert stamp.strip() != ""
    assert tab == "\t"
    assert entry == "ann login\n"
