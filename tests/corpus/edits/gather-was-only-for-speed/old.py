import asyncio

from pages import fetch


def test_pages_have_titles(site):
    async def main():
        return await asyncio.gather(fetch(site, "/a"), fetch(site, "/b"))

    first, second = asyncio.run(main())
    assert first.title == "A"
    assert second.title == "B"
