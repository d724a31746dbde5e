import logging

from uploader import upload


class Flaky:
    def __init__(self, failures):
        self.failures = failures

    def send(self, data):
        if self.failures:
            self.failures -= 1
            raise ConnectionError("reset")
        return len(data)


def test_retries_are_logged(caplog):
    """Each retry is a warning, with its number."""
    caplog.set_level(logging.WARNING, logger="uploader")
    assert upload(Flaky(failures=2), b"abc") == 3
    assert [record.getMessage() for record in caplog.records] == [
        "retry 1 after: reset",
        "retry 2 after: reset",
    ]
