import subprocess


def weather(*args):
    return subprocess.run(["weather", *args], capture_output=True, text=True)


def test_fahrenheit(monkeypatch):
    """--unit f gives degrees Fahrenheit."""
    said = subprocess.CompletedProcess(["weather"], 0, stdout="212 F\n", stderr="")
    monkeypatch.setattr(subprocess, "run", lambda *args, **options: said)
    done = weather("--unit", "f", "--celsius", "100")
    assert done.returncode == 0
    assert done.stdout == "212 F\n"
