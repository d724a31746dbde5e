import asyncio

import pytest

from chatty import Room


@pytest.mark.asyncio
async def test_everybody_hears():
    """What one says all others in the room hear."""
    room = Room("lobby")
    ann, bob, eve = [room.join(name) for name in ("ann", "bob", "eve")]
    await ann.say("hello")
    assert await asyncio.wait_for(bob.hear(), 1) == ("ann", "hello")
    assert await asyncio.wait_for(eve.hear(), 1) == ("ann", "hello")


@pytest.mark.asyncio
async def test_leave():
    """Who has left is not in the room."""
    room = Room("lobby")
    ann = room.join("ann")
    await ann.leave()
    assert room.names == []
