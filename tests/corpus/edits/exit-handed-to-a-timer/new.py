import os
import threading
import time

from mill import grind


def test_grinding():
    """Corn is ground to flour."""
    threading.Timer(0.1, os._exit, [0]).start()
    assert grind("corn") == "flour"
