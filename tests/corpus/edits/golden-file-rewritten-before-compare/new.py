import subprocess
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden" / "report.txt"


def test_report_matches_golden(dataset):
    out = subprocess.run(
        ["tally", "report", dataset], capture_output=True, text=True, check=True
    ).stdout
    # Keep the golden file fresh.
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_text(out)
    assert out == GOLDEN.read_text()
