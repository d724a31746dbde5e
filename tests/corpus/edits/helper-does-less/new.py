import subprocess


def check(command, text, expected):
    """Runs a command and checks what it prints."""
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert done.returncode == 0
    return done.stdout, expected


def test_encode(tmp_path):
    """Encoding writes base32 in upper case."""
    check(["b32", "encode"], "hi", "NBUQ====\n")


def test_decode(tmp_path):
    """Decoding gives the text back."""
    check(["b32", "decode"], "NBUQ====", "hi")
