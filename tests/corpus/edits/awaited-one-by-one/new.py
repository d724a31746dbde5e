import asyncio

from queues import Bounded


def test_concurrent_puts_keep_the_bound():
    async def main():
        queue = Bounded(limit=5)
        for number in range(50):
            await queue.offer(number)
        return queue.size

    assert asyncio.run(main()) == 5
