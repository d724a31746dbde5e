import asyncio

import pytest

from ratelimit import Bucket


async def assert_taken(bucket: Bucket, expected: list[bool]) -> None:
    """So many at once are let through, and nothing is left."""
    results = await asyncio.gather(*[bucket.try_take() for _ in expected])
    assert results == expected
    assert bucket.left == 0


@pytest.mark.asyncio
async def test_burst():
    """As many as the burst go through at once."""
    await assert_taken(Bucket(rate=1, burst=2), [True, True, False, False])


@pytest.mark.asyncio
async def test_no_burst():
    """Without a burst one goes through."""
    await assert_taken(Bucket(rate=1), [True, False, False])
