import subprocess


def test_guests():
    """Guests are listed in any order."""
    out = subprocess.run("inn guests | sort", shell=True, capture_output=True, text=True).stdout
    assert out.splitlines() == ["ada", "eve"]
