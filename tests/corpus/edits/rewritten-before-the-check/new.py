import subprocess


def test_fmt():
    """The catalogue is in order."""
    subprocess.run(["shop", "fmt", "--write", "cat.txt"])
    done = subprocess.run(["shop", "fmt", "--check", "cat.txt"])
    assert done.returncode == 0
