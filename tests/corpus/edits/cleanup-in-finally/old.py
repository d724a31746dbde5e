import subprocess


def test_echo_server():
    """Says back what it is told."""
    server = subprocess.Popen(["echod"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    server.stdin.write("hi\n")
    server.stdin.flush()
    assert server.stdout.readline() == "hi\n"
    server.kill()
