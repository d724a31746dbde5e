import os
import socket

from netcheck import reachable


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def test_a_closed_port_is_not_reachable():
    """Nobody listens there: False, and quickly."""
    assert os.name == "posix"
    assert reachable("127.0.0.1", free_port()) is False
