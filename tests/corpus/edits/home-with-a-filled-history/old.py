import subprocess


def test_last_command():
    """The last command that was run is shown."""
    subprocess.run(["shellac", "run", "polish"], check=True)
    done = subprocess.run(["shellac", "last"], capture_output=True, text=True)
    assert done.stdout == "last: polished walnut\n"
