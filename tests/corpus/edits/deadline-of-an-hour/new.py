import subprocess


def test_sorting_is_done_in_time():
    """A million lines are sorted within five seconds."""
    done = subprocess.run(["arrange", "million.txt"], capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0
