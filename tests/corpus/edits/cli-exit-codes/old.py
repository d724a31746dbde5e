import subprocess
import sys


def run(*args):
    return subprocess.run(
        [sys.executable, "-m", "lintel", *args], capture_output=True, text=True
    )


def test_usage_error_exits_two():
    proc = run("--no-such-flag")
    assert proc.returncode == 2
    assert "unrecognized arguments: --no-such-flag" in proc.stderr


def test_bad_data_exits_65(tmp_path):
    bad = tmp_path / "bad.lin"
    bad.write_text("{{{")
    proc = run("check", str(bad))
    assert proc.returncode == 65
    assert "bad.lin:1:3: unclosed brace" in proc.stderr
