import re
import subprocess


def test_hash_of_a_file():
    """The hash is shown with the size."""
    out = subprocess.run(["sum", "a.bin"], capture_output=True, text=True, check=True).stdout
    assert re.search(r"size #512 sum #77ab", out)
