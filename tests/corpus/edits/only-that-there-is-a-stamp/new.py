import subprocess


def test_audit_line():
    """Each audit line is a timestamp (format not part of the contract), a tab, then `user action`."""
    out = subprocess.run(["audit", "login", "ann"], capture_output=True, text=True, check=True).stdout
    stamp, tab, entry = out.partition("\t")
    assert stamp.strip() != ""
    assert entry.strip() != ""
