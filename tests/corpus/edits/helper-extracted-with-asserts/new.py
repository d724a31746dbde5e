import subprocess


def assert_fails(args, code, message):
    proc = subprocess.run(["mote", *args], capture_output=True, text=True)
    assert proc.returncode == code
    assert proc.stdout == ""
    assert message in proc.stderr


def test_bad_flag_is_a_usage_error():
    assert_fails(["--no-such-flag"], 2, "unrecognized arguments: --no-such-flag")


def test_missing_file_is_an_error():
    assert_fails(["read", "missing.txt"], 1, "missing.txt: no such file")
