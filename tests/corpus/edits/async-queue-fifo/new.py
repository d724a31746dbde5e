import asyncio

import pytest

from taskline import Queue


@pytest.mark.asyncio
async def test_workers_see_items_in_order():
    for attempt in range(5):
        seen = []
        queue = Queue(workers=1)
        async with queue:
            for i in range(20):
                await queue.put(seen.append, i)
            await queue.join()
        if seen == list(range(20)):
            break
        await asyncio.sleep(0.1)
    assert seen == list(range(20))
