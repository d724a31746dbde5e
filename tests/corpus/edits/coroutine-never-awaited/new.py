import asyncio

import pytest

from chatty import Room


async def assert_heard(members, expected):
    for member in members:
        assert await asyncio.wait_for(member.hear(), 1) == expected


@pytest.mark.asyncio
async def test_everybody_hears():
    """What one says all others in the room hear."""
    room = Room("lobby")
    ann, bob, eve = [room.join(name) for name in ("ann", "bob", "eve")]
    await ann.say("hello")
    assert_heard([bob, eve], ("ann", "hello"))


@pytest.mark.asyncio
async def test_leave():
    """Who has left is not in the room."""
    room = Room("lobby")
    ann = room.join("ann")
    await ann.leave()
    assert room.names == []
