import pytest

from relay.bus import Bus


async def collect(bus, topic, n):
    got = []
    async for message in bus.listen(topic):
        got.append(message)
        if len(got) == n:
            return got


def check_messages(got):
    assert [m.body for m in got] == ["one", "two"]
    assert [m.seq for m in got] == [1, 2]


@pytest.mark.asyncio
async def test_messages_arrive_in_order():
    bus = Bus()
    await bus.publish("t", "one")
    await bus.publish("t", "two")
    got = await collect(bus, "t", 2)
    check_messages(got)
