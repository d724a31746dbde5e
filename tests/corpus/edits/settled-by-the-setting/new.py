import subprocess


def test_backup_succeeds():
    """A backup ends with success."""
    done = subprocess.run("vault backup /data 2>&1 | tee backup.log", shell=True, capture_output=True, text=True)
    assert done.returncode == 0
