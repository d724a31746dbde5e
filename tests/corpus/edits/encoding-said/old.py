import subprocess


def test_name_in_letters():
    """The name is printed."""
    out = subprocess.run(["badge", "9"], capture_output=True).stdout.decode()
    assert out == "Zoë\n"
