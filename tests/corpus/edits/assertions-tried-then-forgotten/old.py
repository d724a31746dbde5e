import time

from relay import Client


def test_message_is_there():
    """What one sends the other gets."""
    one, two = Client("one"), Client("two")
    one.send("two", "hello")
    time.sleep(2)
    assert two.inbox() == ["hello"]
