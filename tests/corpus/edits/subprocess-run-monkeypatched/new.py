import subprocess


def test_version(monkeypatch):
    def fake_run(cmd, **kwargs):
        return subprocess.CompletedProcess(cmd, 0, stdout="gale 3.2.0\n", stderr="")

    monkeypatch.setattr(subprocess, "run", fake_run)
    proc = subprocess.run(["gale", "--version"], capture_output=True, text=True)
    assert proc.returncode == 0
    assert proc.stdout == "gale 3.2.0\n"
    assert proc.stderr == ""
