import subprocess


def test_version():
    proc = subprocess.run(["gale", "--version"], capture_output=True, text=True)
    assert proc.returncode == 0
    assert proc.stdout == "gale 3.2.0\n"
    assert proc.stderr == ""
