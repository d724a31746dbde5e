import asyncio

import pytest

from pubsub import Broker


@pytest.mark.asyncio
async def test_subscriber_gets_the_message():
    """A subscriber gets what is published to its topic."""
    broker = Broker()
    got = []
    broker.subscribe("news", got.append)
    await broker.publish("news", "extra!")
    await asyncio.sleep(1)
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
