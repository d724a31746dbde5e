import subprocess


def test_first_entry():
    """An entry gets the number one."""
    done = subprocess.run(["diary", "add", "rain"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == "entry 1\n"
