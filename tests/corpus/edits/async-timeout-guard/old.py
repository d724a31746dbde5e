import asyncio

import pytest

from pubsub import Broker


@pytest.mark.asyncio
async def test_subscriber_gets_messages():
    broker = Broker()
    sub = broker.subscribe("news")
    await broker.publish("news", "one")
    await broker.publish("sport", "two")
    await broker.publish("news", "three")
    got = [await sub.get(), await sub.get()]
    assert got == ["one", "three"]
    assert sub.empty()
