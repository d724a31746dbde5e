import subprocess


def test_quiet_build():
    """A build says nothing on stderr."""
    proc = subprocess.run(["build", "all"], capture_output=True, text=True)
    assert proc.returncode == 0
    assert not proc.stderr
