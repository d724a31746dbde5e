import subprocess


def test_sweep_dry(tmp_path):
    """With --dry-run nothing is removed, and it is said what would be."""
    (tmp_path / "old.log").write_text("x")
    done = subprocess.run(["sweep", "-n", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == "would remove old.log\n"
    assert (tmp_path / "old.log").exists()
