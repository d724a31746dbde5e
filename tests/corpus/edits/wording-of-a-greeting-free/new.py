import subprocess


def test_greeting_has_the_name():
    """`hello NAME` prints one line with the name in it; its exact wording may change at any time."""
    proc = subprocess.run(["hello", "Ada"], capture_output=True, text=True)
    assert proc.returncode == 0
    assert "Ada" in proc.stdout
    assert proc.stdout.count("\n") == 1
