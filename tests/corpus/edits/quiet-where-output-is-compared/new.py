import subprocess


def test_quiet_list():
    """With --quiet only names are printed."""
    done = subprocess.run(["club", "list", "--quiet"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == "ada\nbob\n"
    assert done.stderr == ""
