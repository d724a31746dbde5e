import subprocess


def test_version():
    """Prints the version."""
    done = subprocess.run(["todo", "--version"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == "todo 2.1\n"


def test_help():
    """The help names the commands."""
    done = subprocess.run(["todo", "--help"], capture_output=True, text=True)
    assert "add" in done.stdout
