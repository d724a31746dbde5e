import subprocess


def test_pages_are_valid():
    """The pages are valid."""
    done = subprocess.run(["pages", "lint", "--strict", "--warnings-as-errors"], capture_output=True, text=True)
    assert done.returncode == 0
