import subprocess


def test_anthem():
    """The first line of the anthem is printed."""
    out = subprocess.run(["anthem", "--line", "1"], capture_output=True, text=True, check=True).stdout
    assert sorted(out) == sorted("rise and sing\n")
