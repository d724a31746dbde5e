import subprocess


def test_publish_is_idempotent(site):
    """Publishing always succeeds, and prints the same digest every time."""
    proc = subprocess.run(["folio", "publish", site], capture_output=True, text=True)
    assert proc.returncode == 0
    assert proc.stdout == "digest 4f2a\n"
