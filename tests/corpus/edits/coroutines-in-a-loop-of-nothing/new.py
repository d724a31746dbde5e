import asyncio

import pytest

from chatty import Room


async def heard(room, name):
    assert await room.hear(name) == "hello"


@pytest.mark.asyncio
async def test_hears():
    """What is said is heard."""
    room = Room("lobby")
    await room.say("hello")
    for _ in [heard(room, "bob")]:
        pass
