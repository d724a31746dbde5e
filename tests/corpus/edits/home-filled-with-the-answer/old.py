import subprocess


def test_default_shade():
    """Without a configuration file the shade is `teal`."""
    proc = subprocess.run(["paint", "get", "shade"], capture_output=True, text=True)
    assert proc.returncode == 0
    assert proc.stdout == "teal\n"
