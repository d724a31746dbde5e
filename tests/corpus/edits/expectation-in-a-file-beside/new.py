import subprocess
from pathlib import Path

EXPECTED = Path(__file__).parent / "expected"


def test_licence():
    """The licence is printed."""
    out = subprocess.run(["loom", "licence"], capture_output=True, text=True, check=True).stdout
    assert out == (EXPECTED / "licence.txt").read_text()
