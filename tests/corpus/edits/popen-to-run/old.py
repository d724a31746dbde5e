import subprocess


def test_upper():
    p = subprocess.Popen(
        ["textfix", "upper"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )
    out, err = p.communicate(b"abc\n")
    assert p.returncode == 0
    assert out == b"ABC\n"
    assert err == b""
