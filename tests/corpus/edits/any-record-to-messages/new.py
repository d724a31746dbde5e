import logging

from mailer import deliver


def test_bounce_is_logged(caplog):
    """A mail that comes back is logged."""
    with caplog.at_level(logging.WARNING):
        deliver("nobody@example.org")
    assert caplog.messages == ["nobody@example.org bounced"]
