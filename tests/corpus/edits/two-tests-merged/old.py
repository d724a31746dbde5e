import subprocess


def test_report_prints_totals(dataset):
    proc = subprocess.run(["tally", "report", dataset], capture_output=True, text=True)
    assert proc.stdout.endswith("total 42\n")


def test_report_is_quiet_on_stderr(dataset):
    proc = subprocess.run(["tally", "report", dataset], capture_output=True, text=True)
    assert proc.returncode == 0
    assert proc.stderr == ""
