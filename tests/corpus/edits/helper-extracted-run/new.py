import subprocess
import sys


def check(command, text, *, code, out="", err=""):
    proc = subprocess.run(
        [sys.executable, "-m", "b32tool", command], input=text, capture_output=True, text=True
    )
    assert (proc.returncode, proc.stdout, proc.stderr) == (code, out, err)


def test_encode():
    check("encode", "hi", code=0, out="NBUQ====\n")


def test_decode_bad_padding():
    check("decode", "NBUQ=", code=1, err="b32tool: incorrect padding\n")
