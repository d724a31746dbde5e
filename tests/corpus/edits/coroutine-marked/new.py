import pytest

from tide import level


@pytest.mark.asyncio
async def test_level():
    """The level is asked over the transport."""
    assert await level("harbour") == 3
