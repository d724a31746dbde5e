import subprocess


def test_publish(site):
    proc = subprocess.run(["folio", "publish", site], capture_output=True, text=True)
    assert proc.returncode == 0
    assert proc.stdout == "digest 4f2a\n"
