import subprocess


def test_fmt():
    """The catalogue is in order."""
    done = subprocess.run(["shop", "fmt", "--check", "cat.txt"])
    assert done.returncode == 0
