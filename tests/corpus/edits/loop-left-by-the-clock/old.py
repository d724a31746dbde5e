import subprocess
import time

from dock import status


def test_service_is_up():
    """After start the service is up."""
    subprocess.run(["dock", "start"], check=True)
    time.sleep(4)
    assert status("web") == "up"
