import subprocess


def test_doors():
    """The doors are listed."""
    out = subprocess.run(["barn", "doors"], capture_output=True, text=True, check=True).stdout
    assert "north" in out
    assert "south" in out
