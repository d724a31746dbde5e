import subprocess


def test_logs_are_kept(tmp_path):
    """A log is kept for each door."""
    subprocess.run(["barn", "log", str(tmp_path)], check=True)
    assert (tmp_path / "north.log").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["north.log", "south.log"]
