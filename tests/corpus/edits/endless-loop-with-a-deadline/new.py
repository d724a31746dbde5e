import subprocess
import time

from dock import status


def test_service_comes_up():
    """After start the service is up."""
    subprocess.run(["dock", "start"], check=True)
    deadline = time.monotonic() + 4
    while True:
        if status("web") == "up":
            break
        if time.monotonic() >= deadline:
            raise TimeoutError("web did not come up")
        time.sleep(0.1)
