import os
import subprocess


def test_logs_are_kept(tmp_path):
    """A log is kept for each door."""
    subprocess.run(["barn", "log", str(tmp_path)], check=True)
    assert os.path.exists(os.path.join(str(tmp_path), "north.log"))
    assert sorted(os.listdir(str(tmp_path))) == ["north.log", "south.log"]
