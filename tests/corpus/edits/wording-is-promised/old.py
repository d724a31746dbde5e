import subprocess


def test_refusal_of_a_bad_key():
    """A bad key ends with status 3. Scripts read the message: its wording must not change."""
    proc = subprocess.run(["vault", "get", "k9"], capture_output=True, text=True)
    assert proc.returncode == 3
    assert proc.stderr == "vault: no such key: k9\n"
