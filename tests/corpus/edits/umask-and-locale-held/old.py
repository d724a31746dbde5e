import subprocess


def test_months():
    """Months are listed by name."""
    done = subprocess.run(["almanac", "months", "--first", "2"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == "January\nFebruary\n"
