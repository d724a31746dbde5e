import anyio
import pytest

from barn import milk


@pytest.mark.anyio
async def test_milk_comes():
    """Milk is there after a while."""
    with anyio.move_on_after(3):
        while await milk() != 5:
            await anyio.sleep(0.05)
