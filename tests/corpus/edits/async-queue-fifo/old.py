import asyncio

import pytest

from taskline import Queue


@pytest.mark.asyncio
async def test_workers_see_items_in_order():
    seen = []
    queue = Queue(workers=1)
    async with queue:
        for i in range(20):
            await queue.put(seen.append, i)
        await queue.join()
    assert seen == list(range(20))
