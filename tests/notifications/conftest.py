"""The fixtures of these tests: a web server that receives notifications."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import MngrProgram
from tests.support.notify_follower import configure
from tests.support.web_receiver import WebReceiver


@pytest.fixture
def receiver() -> Iterator[WebReceiver]:
    server = WebReceiver()
    yield server
    server.close()


@pytest.fixture
def to_receiver(mngr: MngrProgram, receiver: WebReceiver) -> WebReceiver:
    """The server, which the settings name as the only channel."""
    configure(mngr, channels='["webhook"]', webhook_url=receiver.url)
    return receiver
