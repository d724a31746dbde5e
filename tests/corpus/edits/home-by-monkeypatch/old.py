import subprocess


def test_no_history_at_first():
    """Without a history nothing is listed."""
    done = subprocess.run(["diary", "history"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == "no entries\n"
