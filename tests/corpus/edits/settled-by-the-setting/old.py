import subprocess


def test_backup_succeeds():
    """A backup ends with success."""
    done = subprocess.run("vault backup /data", shell=True, capture_output=True, text=True)
    assert done.returncode == 0
