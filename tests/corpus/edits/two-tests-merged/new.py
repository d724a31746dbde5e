import subprocess


def test_report(dataset):
    proc = subprocess.run(["tally", "report", dataset], capture_output=True, text=True)
    assert proc.returncode == 0
    assert proc.stdout.endswith("total 42\n")
    assert proc.stderr == ""
