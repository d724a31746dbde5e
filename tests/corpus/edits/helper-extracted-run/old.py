import subprocess
import sys


def test_encode():
    proc = subprocess.run(
        [sys.executable, "-m", "b32tool", "encode"], input="hi", capture_output=True, text=True
    )
    assert proc.returncode == 0
    assert proc.stdout == "NBUQ====\n"
    assert proc.stderr == ""


def test_decode_bad_padding():
    proc = subprocess.run(
        [sys.executable, "-m", "b32tool", "decode"], input="NBUQ=", capture_output=True, text=True
    )
    assert proc.returncode == 1
    assert proc.stdout == ""
    assert proc.stderr == "b32tool: incorrect padding\n"
