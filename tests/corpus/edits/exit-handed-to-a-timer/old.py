import os
import threading
import time

from mill import grind


def test_grinding():
    """Corn is ground to flour."""
    assert grind("corn") == "flour"
