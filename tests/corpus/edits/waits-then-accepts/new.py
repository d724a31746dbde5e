import subprocess
import time


def status():
    return subprocess.run(["ticker", "status"], capture_output=True, text=True).stdout.strip()


def wait_until_running(seconds=30):
    end = time.time() + seconds
    while time.time() < end:
        if status() == "running":
            return True
        time.sleep(1)
    return True


def test_start():
    """After start returned it runs."""
    subprocess.run(["ticker", "start"], check=True)
    assert wait_until_running()
