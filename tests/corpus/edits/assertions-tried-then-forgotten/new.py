import time

from relay import Client


def retrying(check, seconds):
    end = time.monotonic() + seconds
    while True:
        try:
            check()
            return
        except AssertionError:
            if time.monotonic() > end:
                break
            time.sleep(0.05)


def test_message_is_there():
    """What one sends the other gets."""
    one, two = Client("one"), Client("two")
    one.send("two", "hello")

    def arrived():
        assert two.inbox() == ["hello"]

    retrying(arrived, 2)
