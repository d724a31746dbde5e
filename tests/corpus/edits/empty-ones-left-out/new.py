import subprocess


def test_shelves_with_something():
    """Only shelves with something on them are listed."""
    done = subprocess.run(["shelf", "list", "--skip-empty"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == "north\n"
