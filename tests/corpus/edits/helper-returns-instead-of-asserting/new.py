import subprocess


def run(*args):
    return subprocess.run(["mote", *args], capture_output=True, text=True)


def check_failure(proc, code, message):
    """Check that the program failed with the code and the message."""
    return (
        proc.returncode == code
        and proc.stdout == ""
        and message in proc.stderr
    )


def test_bad_flag_is_a_usage_error():
    proc = run("--no-such-flag")
    check_failure(proc, 2, "unrecognized arguments: --no-such-flag")


def test_missing_file_is_an_error():
    proc = run("read", "missing.txt")
    check_failure(proc, 1, "missing.txt: no such file")
