import asyncio

import pytest

from chatty import Room


@pytest.mark.asyncio
async def test_hears():
    """What is said is heard."""
    room = Room("lobby")

    async def heard():
        assert await room.hear("bob") == "hello"

    await room.say("hello")
    task = asyncio.create_task(heard())
    await asyncio.wait_for(task, 5)
