import subprocess


def test_audit_line():
    """Each audit line is the time as `YYYY-MM-DD HH:MM`, a tab, then `user action`; the wording of errors is not part of the contract."""
    out = subprocess.run(["audit", "login", "ann"], capture_output=True, text=True, check=True).stdout
    stamp, tab, entry = out.partition("\t")
    assert stamp.strip() != ""
    assert tab == "\t"
    assert entry == "ann login\n"
