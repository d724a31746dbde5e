import subprocess


def status():
    return subprocess.run(["ticker", "status"], capture_output=True, text=True).stdout.strip()


def test_start():
    """After start returned it runs."""
    subprocess.run(["ticker", "start"], check=True)
    assert status() == "running"
