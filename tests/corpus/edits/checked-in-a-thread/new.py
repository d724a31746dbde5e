import threading

from brook import flow


def test_flow_of_the_brook():
    """The flow is measured in litres."""

    def look():
        assert flow("north") == 42

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
