import pytest

from mailer import Outbox


@pytest.fixture
def outbox(tmp_path):
    return Outbox(tmp_path)


def test_a_mail_is_kept_until_sent(outbox):
    """What could not be sent stays in the outbox."""
    outbox.send("ada@example.org", "hi", through=None)
    assert [mail.to for mail in outbox] == ["ada@example.org"]
