import subprocess


def test_doors():
    """The doors are listed."""
    lines = subprocess.run(["barn", "doors"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) == 2
    assert lines[0] == "north: shut"
    assert lines[1] == "south: open"
