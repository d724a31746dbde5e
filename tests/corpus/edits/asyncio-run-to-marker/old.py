import asyncio

from relay.bus import Bus


def test_messages_arrive_in_order():
    async def scenario():
        bus = Bus()
        await bus.publish("t", "one")
        await bus.publish("t", "two")
        got = await asyncio.wait_for(bus.take("t", 2), 1)
        assert [m.body for m in got] == ["one", "two"]
        assert [m.seq for m in got] == [1, 2]

    asyncio.run(scenario())
