import subprocess


def weather(*args):
    return subprocess.run(["weather", *args], capture_output=True, text=True)


def test_fahrenheit():
    """--unit f gives degrees Fahrenheit."""
    done = weather("--unit", "f", "--celsius", "100")
    assert done.returncode == 0
    assert done.stdout == "212 F\n"
