import subprocess
from pathlib import Path

DATA = Path(__file__).parent / "data"


def test_words_are_counted():
    """Words are counted, whatever stands between them."""
    done = subprocess.run(["wcount", str(DATA / "awkward.txt")], capture_output=True, text=True)
    assert done.stdout == "5\n"
