import asyncio

import pytest

from relay import ping


@pytest.mark.asyncio
async def test_all_answer():
    """All relays answer."""

    async def look(name):
        assert await ping(name) == "pong"

    await asyncio.gather(look("a"), look("b"), return_exceptions=True)
