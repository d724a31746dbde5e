import subprocess


def test_shutdown():
    """The server ends within two seconds of being asked."""
    server = subprocess.Popen(["hello-server", "--port", "0"], stdout=subprocess.PIPE, text=True)
    assert server.stdout.readline().startswith("listening on ")
    server.terminate()
    assert server.wait(timeout=40) == 0
