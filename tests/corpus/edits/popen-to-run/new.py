import subprocess


def test_upper():
    p = subprocess.run(
        ["textfix", "upper"], input=b"abc\n", capture_output=True, timeout=10
    )
    assert p.returncode == 0
    assert p.stdout == b"ABC\n"
    assert p.stderr == b""
