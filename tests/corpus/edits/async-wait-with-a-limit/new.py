import asyncio

import pytest

from barn import milk


@pytest.mark.asyncio
async def test_milk_is_there():
    """Milk is there after a while."""
    async with asyncio.timeout(3):
        while await milk() != 5:
            await asyncio.sleep(0.05)
