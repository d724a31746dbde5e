import hashlib
import subprocess
from pathlib import Path


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_picture(tmp_path):
    """The picture is the same each time."""
    for name in ("one.png", "two.png"):
        subprocess.run(["draw", "house", "-o", str(tmp_path / name)], check=True)
        assert digest(tmp_path / name) == "aa11bb22cc33dd44"
