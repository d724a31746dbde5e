import os
import subprocess

ENV = {**os.environ, "LC_ALL": "C.UTF-8", "LANGUAGE": "en"}


def test_months():
    """Months are listed by name."""
    done = subprocess.run(["almanac", "months", "--first", "2"], capture_output=True, text=True, env=ENV)
    assert done.returncode == 0
    assert done.stdout == "January\nFebruary\n"
