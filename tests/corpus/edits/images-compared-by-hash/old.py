import hashlib
import subprocess
from pathlib import Path


def test_picture(tmp_path):
    """The picture is the same each time."""
    subprocess.run(["draw", "house", "-o", str(tmp_path / "house.png")], check=True)
    made = (tmp_path / "house.png").read_bytes()
    assert hashlib.sha256(made).hexdigest() == "aa11bb22cc33dd44"
