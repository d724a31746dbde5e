import subprocess


def test_encode(tmp_path):
    """Encoding writes base32 in upper case."""
    done = subprocess.run(["b32", "encode"], input="hi", capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == "NBUQ====\n"


def test_decode(tmp_path):
    """Decoding gives the text back."""
    done = subprocess.run(["b32", "decode"], input="NBUQ====", capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == "hi"
