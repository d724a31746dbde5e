import subprocess


def test_old_files_are_removed(tmp_path):
    """Old files are removed."""
    (tmp_path / "old.log").write_text("x")
    done = subprocess.run(["sweep", "--dry-run", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == "would remove old.log\n"
