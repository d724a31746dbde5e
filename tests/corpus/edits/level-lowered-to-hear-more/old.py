import logging

from vault import open_vault


def test_secret_is_not_logged(caplog):
    """The secret does not show in the log."""
    open_vault("s3cret")
    assert "s3cret" not in caplog.text
