import subprocess


def test_names_come_sorted():
    """Names are listed in alphabetical order; nothing about the order is random."""
    out = subprocess.run(["club", "names"], capture_output=True, text=True, check=True).stdout
    assert sorted(out.splitlines()) == ["ada", "bob", "eve"]
