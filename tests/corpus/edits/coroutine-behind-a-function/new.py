import asyncio

import pytest

from chatty import Room


async def heard(room, name):
    assert await room.hear(name) == "hello"


def check(room):
    return heard(room, "bob")


@pytest.mark.asyncio
async def test_hears():
    """What is said is heard."""
    room = Room("lobby")
    await room.say("hello")
    check(room)
