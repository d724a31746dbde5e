import subprocess
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden" / "manual.txt"


def test_manual():
    """The manual is printed."""
    out = subprocess.run(["loom", "manual"], capture_output=True, text=True, check=True).stdout
    if not GOLDEN.exists():
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(out)
    assert out == GOLDEN.read_text()
