import socket
import subprocess
import sys
import time


def test_daemon_greets(free_port):
    proc = subprocess.Popen([sys.executable, "-m", "greetd", "--port", str(free_port)])
    try:
        time.sleep(2)
        with socket.create_connection(("127.0.0.1", free_port), timeout=5) as conn:
            assert conn.recv(64) == b"HELLO greetd/1\r\n"
    finally:
        proc.terminate()
        assert proc.wait(timeout=10) == 0
