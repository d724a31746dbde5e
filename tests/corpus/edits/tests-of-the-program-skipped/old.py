import subprocess


def test_release_is_checked():
    """A release is built, and its tests pass."""
    done = subprocess.run(["forge", "release"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == "released\n"
