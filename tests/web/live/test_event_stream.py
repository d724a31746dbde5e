"""Tests that a slow or stuck client delays nobody, and gets the latest state."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any, cast

import pytest
from playwright.sync_api import Browser, expect

from mngr.api import Fleet
from mngr.web.live.agents.overview_stream import stream_overview
from mngr.web.live.background_calls import BackgroundCalls, TooManyCalls
from mngr.web.live.site import Site
from tests.conftest import MngrProgram
from tests.support.live_page import LiveServer

expect.set_options(timeout=60_000)


@pytest.fixture
def site(mngr: MngrProgram) -> Iterator[Site]:
    site = Site(Fleet(home=str(mngr.home), cwd=str(mngr.repo)), root=str(mngr.repo))
    yield site
    site.follower.close()


def test_a_slow_client_gets_one_event_with_the_latest_state(mngr: MngrProgram, site: Site) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    agent = mngr.get_agent("foo")["id"]

    async def read_until(stream: Any, word: str) -> None:
        async for name, event in stream:
            if name == "overview" and word in event["cards"].get(agent, ""):
                return

    async def scenario() -> None:
        fast, slow = stream_overview(site), stream_overview(site)
        await read_until(slow, "running")
        await read_until(fast, "running")
        for command, word in (("stop", "stopped"), ("start", "running"), ("stop", "stopped")):
            await asyncio.to_thread(mngr, command, "foo")
            await asyncio.wait_for(read_until(fast, word), 20)
        name, event = await asyncio.wait_for(anext(slow), 20)
        assert name == "overview" and "stopped" in cast(dict[str, Any], event)["cards"][agent]

    asyncio.run(scenario())


def test_clients_that_never_read_delay_no_other_client(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sh", "-c", "while :; do seq 1000; done")
    agent = mngr.get_agent("foo")["id"]
    with LiveServer(mngr) as server:
        stuck = []
        for _ in range(20):
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            client.connect(("127.0.0.1", server.port))
            request = f"GET /agents/{agent}/events HTTP/1.1\r\nHost: localhost\r\nCookie: {server.cookie}\r\n\r\n"
            client.sendall(request.encode())
            stuck.append(client)
        with server.stream("/events") as events:
            began = None
            for _, event in events:
                card = event.get("cards", {}).get(agent, "")
                if began is None and "running" in card:
                    mngr("stop", "foo")
                    began = time.monotonic()
                elif began is not None and "stopped" in card:
                    break
            assert began is not None and time.monotonic() - began < 5.0
        for client in stuck:
            client.close()


def test_calls_that_do_not_end_leave_room_for_others_and_their_clients_may_go_away() -> None:
    answer = threading.Event()

    async def scenario() -> None:
        calls = BackgroundCalls(2)
        waiting = [asyncio.ensure_future(calls.run(answer.wait)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyCalls):
            await calls.run(lambda: None)
        waiting[0].cancel()
        answer.set()
        assert await waiting[1]
        assert await calls.run(lambda: 7) == 7
        with pytest.raises(ZeroDivisionError):
            await calls.run(lambda: 1 // 0)

    asyncio.run(scenario())


def test_a_hundred_agents_are_on_the_page_and_one_change_updates_one_card(mngr: MngrProgram, chromium: Browser) -> None:
    count = 100
    mngr("create", "many", "--count", str(count), "--", "sleep", "1000", timeout=300)
    with LiveServer(mngr) as server, chromium.new_context() as context:
        page = context.new_page()
        page.goto(server.url)
        expect(page.locator(".group-working .card")).to_have_count(count)
        page.evaluate("for (const card of document.querySelectorAll('.card')) card.dataset.old = 'yes'")
        name = page.locator(".name").last.text_content() or ""
        mngr("stop", name)
        expect(page.locator(".group-ended .name")).to_have_text(name)
        expect(page.locator(".card:not([data-old])")).to_have_count(1)
