import asyncio

from chatty import Room


def test_hears():
    """What is said is heard."""

    async def heard(room):
        assert await room.hear("bob") == "hello"

    async def main():
        room = Room("lobby")
        await room.say("hello")
        asyncio.create_task(heard(room))

    asyncio.run(main())
