import asyncio

import pytest

from ratelimit import Bucket


@pytest.mark.asyncio
async def test_burst():
    """As many as the burst go through at once."""
    bucket = Bucket(rate=1, burst=2)
    results = await asyncio.gather(*[bucket.try_take() for _ in range(4)])
    assert results == [True, True, False, False]
    assert bucket.left == 0


@pytest.mark.asyncio
async def test_no_burst():
    """Without a burst one goes through."""
    bucket = Bucket(rate=1)
    results = await asyncio.gather(*[bucket.try_take() for _ in range(3)])
    assert results == [True, False, False]
    assert bucket.left == 0
