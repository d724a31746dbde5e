import asyncio

import pytest

from barn import milk


@pytest.mark.asyncio
async def test_milk_is_there():
    """Milk is there after a while."""
    await asyncio.sleep(3)
    assert await milk() == 5
