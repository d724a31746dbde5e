import subprocess


def test_age_of_the_barn():
    """The age is printed."""
    proc = subprocess.run(["barn", "age"], capture_output=True, text=True)
    assert proc.returncode == 0
    assert proc.stdout == "90 years\n"
    assert proc.stderr == ""
