import asyncio

import pytest

from pubsub import Broker


@pytest.mark.asyncio
async def test_subscriber_gets_the_message():
    """A subscriber gets what is published to its topic."""
    broker = Broker()
    got = []
    arrived = asyncio.Event()

    def receive(message):
        got.append(message)
        arrived.set()

    broker.subscribe("news", receive)
    await broker.publish("news", "extra!")
    await asyncio.wait_for(arrived.wait(), timeout=1)
    assert got == ["extra!"]
    await broker.close()


@pytest.mark.asyncio
async def test_other_topics():
    """Other topics are not heard."""
    broker = Broker()
    got = []
    broker.subscribe("news", got.append)
    await broker.publish("sports", "goal")
    await broker.close()
    assert got == []
