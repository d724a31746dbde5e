import logging

from mailer import deliver


def test_bounce_is_logged(caplog):
    """A mail that comes back is logged as a warning."""
    with caplog.at_level(logging.DEBUG):
        deliver("nobody@example.org")
    assert caplog.messages == ["nobody@example.org bounced"]
