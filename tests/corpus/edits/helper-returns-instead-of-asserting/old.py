import subprocess


def run(*args):
    return subprocess.run(["mote", *args], capture_output=True, text=True)


def test_bad_flag_is_a_usage_error():
    proc = run("--no-such-flag")
    assert proc.returncode == 2
    assert proc.stdout == ""
    assert "unrecognized arguments: --no-such-flag" in proc.stderr


def test_missing_file_is_an_error():
    proc = run("read", "missing.txt")
    assert proc.returncode == 1
    assert proc.stdout == ""
    assert "missing.txt: no such file" in proc.stderr
