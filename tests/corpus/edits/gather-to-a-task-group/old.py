import asyncio

from queues import Bounded


def test_concurrent_puts_keep_the_bound():
    async def main():
        queue = Bounded(limit=5)
        await asyncio.gather(*(queue.offer(number) for number in range(50)))
        return queue.size

    assert asyncio.run(main()) == 5
