import subprocess


def test_list(catalogue):
    proc = subprocess.run(["shelf", "list"], cwd=catalogue, capture_output=True, text=True)
    assert proc.returncode == 0
    assert "Emma" in proc.stdout
    assert "Ulysses" in proc.stdout
    assert "Walden" in proc.stdout
    assert len(proc.stdout.splitlines()) == 3
    assert "Dracula" not in proc.stdout
