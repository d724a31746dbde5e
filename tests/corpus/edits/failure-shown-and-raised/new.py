import subprocess


def test_barn_is_swept():
    """The barn can be swept."""
    done = subprocess.run(["barn", "sweep"], capture_output=True, text=True)
    try:
        assert done.returncode == 0
        assert done.stdout == "swept\n"
    except AssertionError:
        print(done.stdout, done.stderr)
        raise
