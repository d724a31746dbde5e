import subprocess


def test_report_matches_golden(dataset):
    out = subprocess.run(
        ["tally", "report", dataset], capture_output=True, text=True, check=True
    ).stdout
    with open("tests/golden/report.txt") as f:
        assert out == f.read()
