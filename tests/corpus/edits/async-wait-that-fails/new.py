import anyio
import pytest

from barn import milk


@pytest.mark.anyio
async def test_milk_is_in_the_can():
    """Milk is there after a while."""
    with anyio.fail_after(3):
        while await milk() != 5:
            await anyio.sleep(0.05)
