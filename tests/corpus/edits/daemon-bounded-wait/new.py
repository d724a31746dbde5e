import socket
import subprocess
import sys
import time


def connect_when_ready(port, deadline=10.0):
    end = time.monotonic() + deadline
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=5)
        except ConnectionRefusedError:
            if time.monotonic() >= end:
                raise
            time.sleep(0.05)


def test_daemon_greets(free_port):
    proc = subprocess.Popen([sys.executable, "-m", "greetd", "--port", str(free_port)])
    try:
        with connect_when_ready(free_port) as conn:
            assert conn.recv(64) == b"HELLO greetd/1\r\n"
    finally:
        proc.terminate()
        assert proc.wait(timeout=10) == 0
