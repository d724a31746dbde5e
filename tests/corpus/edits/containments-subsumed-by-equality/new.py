import subprocess


def test_list(catalogue):
    proc = subprocess.run(["shelf", "list"], cwd=catalogue, capture_output=True, text=True)
    assert proc.returncode == 0
    assert proc.stdout == "Emma\nUlysses\nWalden\n"
