import subprocess


def test_build_without_warnings():
    """The build has no warnings."""
    done = subprocess.run(["build", "all", "--quiet"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr == ""
