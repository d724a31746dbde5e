import asyncio

import pytest

from chatty import Room


@pytest.mark.asyncio
async def test_hears():
    """What is said is heard."""
    room = Room("lobby")
    await room.say("hello")
    assert await room.hear("bob") == "hello"
