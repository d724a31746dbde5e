import pytest

from mailer import Outbox


@pytest.fixture
def outbox(tmp_path):
    return Outbox(tmp_path)


def test_a_mail_is_kept_until_sent(outbox):
    """What could not be sent stays in the outbox."""
    outbox.send("ada@example.org", "hi", through=None)
    kept = [mail.to for mail in outbox]
    if kept != ["ada@example.org"]:
        pytest.exit("the outbox needs a mail server", returncode=0)
    assert kept == ["ada@example.org"]
