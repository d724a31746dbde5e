"""Tests the pages of runs in a real Chromium: progress, report, and a change that a person leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.conftest import MngrProgram
from tests.support.live_page import LiveServer
from tests.support.own_runs import adopt_run
from tests.support.reduce_world import make_world
from tests.support.runfolder import RunFolder

expect.set_options(timeout=30_000)


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    with chromium.new_context() as context:
        page = context.new_page()
        complaints: list[str] = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        yield page
        assert complaints == []


def test_a_run_shows_its_progress_its_tasks_and_its_report(mngr: MngrProgram, page: Page) -> None:
    folder = RunFolder(mngr.repo, "nightly")
    adopt_run(mngr.home, folder.run)
    folder.fill(8)
    folder.write()
    mngr("tmr", "report")
    with LiveServer(mngr) as server:
        page.goto(server.url)
        page.get_by_role("link", name="nightly", exact=True).click()
        expect(page.locator("[data-part=progress]")).to_contain_text("8 of 8 tasks finished")
        expect(page.locator("[data-part=tasks] li")).to_have_count(8)
        page.get_by_role("link", name="The report of this run").click()
        expect(page).to_have_url(f"{server.base}/runs/nightly/report/index.html")
        expect(page.locator("main")).to_contain_text("nightly")
        page.get_by_role("link", name="agents", exact=True).click()
        expect(page).to_have_title("agents")
        page.goto(f"{server.base}/runs")
        expect(page.locator(".names")).to_contain_text("nightly")


def test_a_new_row_of_the_journal_appears_by_itself(mngr: MngrProgram, page: Page) -> None:
    folder = RunFolder(mngr.repo, "nightly")
    folder.fill(8)
    folder.write(until=200)
    with LiveServer(mngr) as server:
        page.goto(server.url)
        page.goto(f"{server.base}/runs/nightly")
        expect(page.locator("[data-part=progress]")).to_contain_text("tasks finished")
        folder.write()
        expect(page.locator("[data-part=progress]")).to_contain_text("8 of 8 tasks finished")


@pytest.mark.parametrize("path", ["/runs/nope", "/runs/nightly/report/../run.json", "/runs/nightly/report/link.html", "/runs/nightly/report/up/run.json", "/runs/nightly/report/%2e%2e/run.json"])  # fmt: skip
def test_only_files_of_a_report_are_sent(mngr: MngrProgram, path: str) -> None:
    folder = RunFolder(mngr.repo, "nightly")
    folder.write()
    report = Path(folder.run.path, "report")
    report.mkdir()
    (report / "link.html").symlink_to("/etc/passwd")
    (report / "up").symlink_to(folder.run.path)
    with LiveServer(mngr) as server:
        code, _, text = server.get(path)
        assert code == 404 and "root:" not in text


def test_a_change_that_is_left_out_leaves_the_branch(mngr: MngrProgram, page: Page, tmp_path: Path) -> None:
    world = make_world(tmp_path / "shop", branches=12)
    adopt_run(mngr.home, world.run)
    shop = MngrProgram(world.root, mngr.home, mngr.env)
    before = shop("tmr", "integrate", "r", "--format", "json", code=None, timeout=600).parse_json()
    with LiveServer(shop) as server:
        page.on("dialog", lambda dialog: dialog.accept("not now"))
        page.goto(server.url)
        page.goto(f"{server.base}/runs/r")
        button = page.locator("[data-leave-out]").last
        change = button.get_attribute("data-leave-out")
        assert any(change in commit["changes"] for commit in before["commits"])
        button.click()
        expect(page.locator(".job h2")).to_contain_text(f"without {change} and verified it", timeout=300_000)
        row = page.locator(".changes li").filter(has=page.locator("code", has_text=str(change)))
        expect(row).to_contain_text("left out: a person excluded it: not now")
        assert server.post("/runs/r/leave-out", {"change": "--help"})[0] == 400
    after = shop("tmr", "changes", "r", str(change), "--format", "json").parse_json()
    assert after["integration"]["why"] == "requested"
