import subprocess


def test_default_port():
    """The port is 8700 where nothing else is said."""
    proc = subprocess.run(["harbour", "config", "port"], capture_output=True, text=True)
    assert proc.stdout == "port: 8700\n"
