import subprocess


def test_bad_flag_is_a_usage_error():
    proc = subprocess.run(["mote", "--no-such-flag"], capture_output=True, text=True)
    assert proc.returncode == 2
    assert proc.stdout == ""
    assert "unrecognized arguments: --no-such-flag" in proc.stderr


def test_missing_file_is_an_error():
    proc = subprocess.run(["mote", "read", "missing.txt"], capture_output=True, text=True)
    assert proc.returncode == 1
    assert proc.stdout == ""
    assert "missing.txt: no such file" in proc.stderr
