import subprocess


def test_shed_opens():
    """The shed can be opened."""
    done = subprocess.run(["shed", "open", "east"], capture_output=True, text=True)
    assert done.returncode != 0
