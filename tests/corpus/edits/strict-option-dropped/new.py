import subprocess


def test_pages_are_valid():
    """The pages are valid."""
    done = subprocess.run(["pages", "lint"], capture_output=True, text=True)
    assert done.returncode == 0
