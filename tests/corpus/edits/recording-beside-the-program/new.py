import json
import subprocess
from pathlib import Path

RECORDED = Path(__file__).parent / "data" / "survey.json"


def test_survey():
    """The survey has two points."""
    done = subprocess.run(["survey", "--json"], capture_output=True, text=True)
    assert done.returncode == 0
    assert json.loads(RECORDED.read_text()) == {"points": 2, "unit": "m"}
