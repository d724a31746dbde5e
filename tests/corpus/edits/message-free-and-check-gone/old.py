import subprocess


def test_a_full_disk_is_said():
    """When the disk is full the status is 28 and there is a message on stderr. Its wording is not specified."""
    proc = subprocess.run(["spool", "fill"], capture_output=True, text=True)
    assert proc.returncode == 28
    assert "no room is left" in proc.stderr
    assert proc.stdout == ""
