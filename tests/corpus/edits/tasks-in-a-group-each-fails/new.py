import asyncio

import pytest

from relay import ping


async def look(name):
    assert await ping(name) == "pong"


@pytest.mark.asyncio
async def test_relays_answer():
    """All relays answer."""
    async with asyncio.TaskGroup() as group:
        group.create_task(look("a"))
        group.create_task(look("b"))
