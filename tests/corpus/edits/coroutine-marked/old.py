import asyncio

from tide import level


def test_level():
    """The level is asked over the transport."""

    async def ask():
        return await level("harbour")

    assert asyncio.run(ask()) == 3
