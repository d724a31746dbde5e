import subprocess
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden" / "report.txt"


def test_report_matches_golden(dataset):
    out = subprocess.run(
        ["tally", "report", dataset], capture_output=True, text=True, check=True
    ).stdout
    assert out == GOLDEN.read_text()
