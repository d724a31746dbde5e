import asyncio

from queues import Bounded


def test_concurrent_puts_keep_the_bound():
    async def main():
        queue = Bounded(limit=5)
        async with asyncio.TaskGroup() as group:
            for number in range(50):
                group.create_task(queue.offer(number))
        return queue.size

    assert asyncio.run(main()) == 5
