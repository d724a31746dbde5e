import anyio
import pytest

from barn import milk


@pytest.mark.anyio
async def test_milk_comes():
    """Milk is there after a while."""
    await anyio.sleep(3)
    assert await milk() == 5
