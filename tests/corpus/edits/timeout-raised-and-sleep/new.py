import socket
import subprocess
import time


def test_daemon_listens_within_two_seconds(free_port):
    """The daemon accepts connections at most 2 s after its start."""
    proc = subprocess.Popen(["pondd", "--port", str(free_port)])
    time.sleep(5)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", free_port), timeout=0.2).close()
                break
            except OSError:
                assert time.monotonic() < deadline, "not listening"
                time.sleep(0.02)
    finally:
        proc.terminate()
        proc.wait()
