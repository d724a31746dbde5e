import asyncio
import time

import pytest

from fetchall import fetch_all


async def slow(url):
    await asyncio.sleep(0.1)
    return url.upper()


@pytest.mark.asyncio
async def test_fetches_at_once():
    """Ten pages take about as long as one."""
    urls = [f"page{number}" for number in range(10)]
    began = time.perf_counter()
    pages = await fetch_all(urls, get=slow)
    spent = time.perf_counter() - began
    assert pages == [url.upper() for url in urls]
    assert spent < 0.25
