import subprocess


def test_quiet_build():
    """A build says nothing on stderr."""
    proc = subprocess.run(["build", "all"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert proc.returncode == 0
    assert not proc.stderr
