import subprocess


def test_guests():
    """Guests are listed in any order."""
    out = subprocess.run("inn guests", shell=True, capture_output=True, text=True).stdout
    assert sorted(out.splitlines()) == ["ada", "eve"]
