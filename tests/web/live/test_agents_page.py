"""Tests the live page with real agents in a real Chromium: what it shows, and what each button does."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.conftest import MngrProgram
from tests.support.hosts.sshd import Farm
from tests.support.live_page import LiveServer

expect.set_options(timeout=30_000)
HOSTILE = "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script>"
ASK = '[{"ask": "red or blue?"}, {"ask": "sure?"}]'
PERMISSION = '[{"write": {"path": "new.txt", "content": "a\\n"}}, {"commit": "x"}, {"permission": "may I?"}]'
PHONE = {"width": 390, "height": 844}


@pytest.fixture
def server(mngr: MngrProgram) -> Iterator[LiveServer]:
    with LiveServer(mngr) as server:
        yield server


@pytest.fixture
def page(chromium: Browser, server: LiveServer) -> Iterator[Page]:
    """The page with all agents. A complaint of the browser fails the test."""
    with chromium.new_context() as context:
        page = context.new_page()
        complaints: list[str] = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.goto(server.url)
        yield page
        complaints = [text for text in complaints if "net::ERR" not in text]  # a server that was killed on purpose
        assert complaints == []


def start_player(mngr: MngrProgram, name: str, steps: str) -> None:
    mngr("create", name, "player", "-m", "go", "--", steps)
    mngr("wait", name)


def open_agent(page: Page, name: str) -> None:
    page.get_by_role("link", name=name, exact=True).click()
    expect(page.locator("#head h1")).to_contain_text(name)


def test_the_token_is_not_in_the_url_of_the_page(page: Page, server: LiveServer) -> None:
    expect(page.locator("#summary")).to_contain_text("There are no agents")
    assert page.url == f"{server.base}/"
    assert "mngr-" not in page.evaluate("document.cookie")


def test_agents_are_grouped_by_what_they_need_with_their_question(mngr: MngrProgram, page: Page) -> None:
    start_player(mngr, "ask", ASK)
    mngr("create", "busy", "--", "sleep", "1000")
    mngr("create", "broken", "--", "false")
    expect(page.locator("#groups h2")).to_have_text(["needs you (1)", "working (1)", "done, failed, stopped (1)"])
    expect(page.locator(".group-needs_you .question")).to_have_text("red or blue?")
    expect(page).to_have_title("(1) agents")


def test_a_change_is_on_the_page_within_a_second(mngr: MngrProgram, page: Page) -> None:
    start_player(mngr, "ask", ASK)
    expect(page.locator(".group-needs_you .name")).to_have_text("ask")
    seconds = []
    for _ in range(3):
        mngr("stop", "ask")
        ended = time.monotonic()
        expect(page.locator(".group-ended .name")).to_have_text("ask")
        seconds.append(time.monotonic() - ended)
        mngr("start", "ask")
        started = time.monotonic()
        expect(page.locator(".group-needs_you .name, .group-working .name")).to_have_text("ask")
        seconds.append(time.monotonic() - started)
    assert min(seconds) < 1.0, seconds


def test_allow_answers_the_permission_question(mngr: MngrProgram, page: Page) -> None:
    start_player(mngr, "ask", PERMISSION)
    page.get_by_role("button", name="Allow").click()
    expect(page.locator("#notice")).to_have_text("allowed ask")
    assert "yes" in mngr("transcript", "ask").out


def test_an_answer_to_an_earlier_question_is_refused(mngr: MngrProgram, page: Page) -> None:
    start_player(mngr, "ask", '[{"permission": "read a file?"}, {"permission": "delete all files?"}]')
    expect(page.get_by_role("button", name="Allow")).to_be_visible()
    page.evaluate("document.querySelector('[data-action=allow]').dataset.state = 'WAITING permission 2020'")
    page.get_by_role("button", name="Allow").click()
    expect(page.locator("#notice")).to_contain_text("the state of ask has changed since you saw it")
    assert "yes" not in mngr("transcript", "ask").out


def test_a_message_reaches_the_agent_and_leaves_the_field(mngr: MngrProgram, page: Page) -> None:
    start_player(mngr, "ask", ASK)
    open_agent(page, "ask")
    page.get_by_placeholder("Message to the agent").fill("blue please")
    page.get_by_role("button", name="Send").click()
    expect(page.locator("#notice")).to_contain_text("sent a message to ask")
    expect(page.get_by_placeholder("Message to the agent")).to_have_value("")
    expect(page.locator("#detail")).to_contain_text("blue please")
    assert "blue please" in mngr("transcript", "ask").out


def test_pull_stop_and_start_from_the_page_of_an_agent(mngr: MngrProgram, page: Page) -> None:
    start_player(mngr, "work", PERMISSION)
    open_agent(page, "work")
    expect(page.locator(".command code")).to_have_text("mngr connect work")
    page.get_by_role("button", name="Pull").click()
    expect(page.locator("#notice")).to_contain_text("pulled work (1 new commit")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#head .words")).to_contain_text("stopped")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("button", name="Stop")).to_be_visible()


def test_an_agent_that_needs_a_login_shows_the_command_for_a_terminal(mngr: MngrProgram, page: Page) -> None:
    mngr("create", "idle", "player", "-m", "go", "--", '[{"park": {"reason": "login", "text": "log in"}}]')
    open_agent(page, "idle")
    expect(page.locator("#head .words")).to_have_text("log in")
    expect(page.locator("#head .note code")).to_contain_text("mngr ")


def test_each_tab_shows_its_part_of_the_agent(mngr: MngrProgram, page: Page) -> None:
    start_player(mngr, "work", PERMISSION)
    open_agent(page, "work")
    expected = {
        "Screen": "may I?", "Conversation": "assistant", "Diff": "+++ b/new.txt", "Events": "turn_end",
        "Explanation": "work is WAITING",
    }  # fmt: skip
    for tab, text in expected.items():
        page.get_by_role("link", name=tab, exact=True).click()
        expect(page.locator("#detail")).to_contain_text(text)


def test_the_screen_of_a_working_agent_is_live_and_in_colour(mngr: MngrProgram, page: Page) -> None:
    count = "n=0; while :; do n=$((n+1)); printf '\\033[1;31mred %d\\033[0m\\n' $n; sleep 0.3; done"
    mngr("create", "busy", "--", "sh", "-c", count)
    open_agent(page, "busy")
    expect(page.locator("#detail .fg-1.s-bold").first).to_contain_text("red")
    first = page.locator("#detail").inner_text()
    expect(page.locator("#detail")).not_to_have_text(first, timeout=10_000)


def test_a_hostile_agent_runs_no_script_and_leaves_no_escape_sequence(mngr: MngrProgram, page: Page) -> None:
    script = f'printf \'%s\\033]0;t\\007\\033[?1049h\\033[31m%s\\n\' "{HOSTILE}" end; echo "{HOSTILE}" > "{HOSTILE[:8]}x"; sleep 1000'
    mngr("create", "evil", "--", "sh", "-c", script)
    start_player(mngr, "ask", f'[{{"reply": "{HOSTILE}"}}, {{"ask": "{HOSTILE}"}}]'.replace("'", ""))
    expect(page.locator(".group-needs_you .question")).to_contain_text("img src=x")
    for name in ("evil", "ask"):
        page.goto(page.url.split("/agents")[0].rstrip("/") + "/")
        open_agent(page, name)
        for tab in ("Screen", "Conversation", "Diff", "Events", "Explanation"):
            page.get_by_role("link", name=tab, exact=True).click()
            expect(page.locator("#detail")).not_to_have_text(re.compile("^(loading)?$"))
            assert "\x1b" not in page.locator("#detail").inner_text()
            assert page.locator("#detail img, #detail script, #head img").count() == 0
    assert page.evaluate("typeof window.hacked") == "undefined"


def test_an_agent_that_somebody_else_destroys_leaves_the_list_and_its_page_says_so(
    mngr: MngrProgram, page: Page, server: LiveServer
) -> None:
    mngr("create", "foo", "--", "sh", "-c", "echo hello; sleep 1000")
    other = page.context.new_page()
    other.goto(f"{server.base}/agents/{mngr.get_agent('foo')['id']}")
    expect(other.locator("#detail")).to_contain_text("hello")
    expect(page.locator(".name")).to_have_text("foo")
    mngr("destroy", "--force", "foo")
    expect(page.locator("#news")).to_contain_text("foo was destroyed")
    expect(page.locator(".name")).to_have_count(0)
    expect(other.locator("#head")).to_contain_text("foo was destroyed. You can restore it: mngr undestroy foo")
    expect(other.locator("#detail")).to_be_hidden()
    mngr("undestroy", "foo")
    expect(other.locator("#head")).to_contain_text("stopped")


def test_the_page_of_an_unknown_agent_says_so(page: Page, server: LiveServer) -> None:
    page.goto(f"{server.base}/agents/a-000000000000")
    expect(page.locator("#head")).to_contain_text("This agent does not exist")


def test_a_host_that_dies_while_its_agent_is_shown_is_named_and_the_page_goes_on(
    mngr: MngrProgram, farm: Farm, chromium: Browser
) -> None:
    mngr.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)
    mngr("create", "away@h1", "--transfer", "copy", "--", "sh", "-c", "echo hello; sleep 1000")
    mngr("create", "here", "--", "sh", "-c", "echo hi there; sleep 1000")
    with LiveServer(mngr) as server, chromium.new_context() as context:
        overview, page = context.new_page(), context.new_page()
        overview.goto(server.url)
        page.goto(f"{server.base}/agents/{mngr.get_agent('away')['id']}")
        expect(page.locator("#detail")).to_contain_text("hello")
        farm.cut("h1")
        expect(page.locator("#head")).to_contain_text("its host does not answer", timeout=60_000)
        expect(overview.locator("#errors")).to_contain_text("h1:", timeout=60_000)
        overview.get_by_role("link", name="here", exact=True).click()
        expect(overview.locator("#detail")).to_contain_text("hi there")
        farm.mend("h1")
        expect(page.locator("#head .words")).to_have_text("running", timeout=60_000)


def test_a_hundred_thousand_lines_of_output_and_of_a_diff_are_cut(mngr: MngrProgram, page: Page) -> None:
    mngr("create", "foo", "--", "sh", "-c", "seq 100000; sleep 1000")
    (mngr.get_work_dir("foo") / "big.txt").write_text("".join(f"line {n}\n" for n in range(100_000)))
    open_agent(page, "foo")
    expect(page.locator("#detail")).to_contain_text("100000")
    page.get_by_role("link", name="Diff", exact=True).click()
    expect(page.locator("#detail")).to_contain_text("more lines are not shown")
    page.get_by_role("link", name="Explanation", exact=True).click()
    expect(page.locator("#detail")).to_contain_text("foo is RUNNING")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_the_page_connects_again_to_a_server_that_was_killed_and_restarted(
    mngr: MngrProgram, page: Page, server: LiveServer, number: int
) -> None:
    start_player(mngr, "ask", PERMISSION)
    mngr("create", "gone", "--", "sleep", "1000")
    expect(page.locator(".name")).to_have_text(["ask", "gone"])
    server.end(number)
    expect(page.locator("#connection")).to_be_visible()
    mngr("destroy", "--force", "gone")
    server.start()
    expect(page.locator("#connection")).to_be_hidden()
    expect(page.locator(".name")).to_have_text(["ask"])
    page.get_by_role("button", name="Allow").click()
    expect(page.locator("#notice")).to_have_text("allowed ask")


def test_on_a_phone_a_person_reads_allows_writes_and_reads_the_diff(
    mngr: MngrProgram, chromium: Browser, server: LiveServer
) -> None:
    start_player(mngr, "ask", PERMISSION[:-1] + ', {"ask": "red or blue?"}]')
    with chromium.new_context(viewport=PHONE, has_touch=True, is_mobile=True) as context:  # type: ignore[arg-type]
        page = context.new_page()
        page.goto(server.url)
        expect(page.locator(".question")).to_have_text("may I?")
        page.get_by_role("link", name="ask", exact=True).tap()
        allow = page.get_by_role("button", name="Allow")
        expect(allow).to_be_in_viewport()
        box = allow.bounding_box()
        assert box is not None and box["height"] >= 44
        allow.tap()
        expect(page.locator("#head .question")).to_have_text("red or blue?")
        field = page.get_by_placeholder("Message to the agent")
        expect(field).to_be_in_viewport()
        field.fill("blue")
        page.get_by_role("button", name="Send").tap()
        expect(page.locator("#notice")).to_contain_text("sent a message to ask")
        page.get_by_role("link", name="Diff", exact=True).tap()
        expect(page.get_by_text("+++ b/new.txt")).to_be_in_viewport()
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_a_read_only_page_has_no_buttons(mngr: MngrProgram, chromium: Browser) -> None:
    start_player(mngr, "ask", PERMISSION)
    with LiveServer(mngr, "--read-only") as server, chromium.new_context() as context:
        page = context.new_page()
        page.goto(server.url)
        expect(page.locator(".question")).to_have_text("may I?")
        open_agent(page, "ask")
        expect(page.locator("#detail")).to_contain_text("may I?")
        assert page.locator("button, textarea").count() == 0
