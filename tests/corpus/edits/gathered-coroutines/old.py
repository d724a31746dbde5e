import asyncio

import pytest

from chatty import Room


@pytest.mark.asyncio
async def test_all_hear():
    """All hear what is said."""
    room = Room("lobby")
    await room.say("hello")
    assert await room.hear("bob") == "hello"
    assert await room.hear("eve") == "hello"
