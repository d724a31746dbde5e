import asyncio

from chatty import Room


def test_hears():
    """What is said is heard."""

    async def main():
        room = Room("lobby")
        await room.say("hello")
        assert await room.hear("bob") == "hello"

    asyncio.run(main())
