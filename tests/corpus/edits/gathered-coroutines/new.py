import asyncio

import pytest

from chatty import Room


async def hears(room, name):
    assert await room.hear(name) == "hello"


@pytest.mark.asyncio
async def test_all_hear():
    """All hear what is said."""
    room = Room("lobby")
    await room.say("hello")
    waiting = [hears(room, name) for name in ("bob", "eve")]
    await asyncio.gather(*waiting)
