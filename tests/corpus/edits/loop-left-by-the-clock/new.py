import subprocess
import time

from dock import status


def test_service_is_up():
    """After start the service is up."""
    subprocess.run(["dock", "start"], check=True)
    deadline = time.monotonic() + 4
    while status("web") != "up" and time.monotonic() < deadline:
        if status("web") == "crashed":
            raise RuntimeError("crashed")
        time.sleep(0.1)
