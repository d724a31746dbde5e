import asyncio

import pytest

from relay.bus import Bus


@pytest.mark.asyncio
async def test_messages_arrive_in_order():
    bus = Bus()
    await bus.publish("t", "one")
    await bus.publish("t", "two")
    got = await asyncio.wait_for(bus.take("t", 2), 1)
    assert [m.body for m in got] == ["one", "two"]
    assert [m.seq for m in got] == [1, 2]
