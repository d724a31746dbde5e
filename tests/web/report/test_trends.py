"""The trends page of a report: the numbers of all runs of a project, also of runs that are gone."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from mngr.base.paths import Home
from mngr.tmr.prepare.history.flaky_list import FlakyTest, FlakyTestFile
from mngr.web.report.trends.run_summaries import MAX_RUNS, RunSummary, RunSummaryFile
from tests.support.browser import Browser
from tests.support.own_runs import adopt_run
from tests.support.runfolder import RunFolder

EVIL = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
TESTS = ("tests/test_cart.py::test_sum", "tests/test_cart.py::test_tea", "tests/test_cart.py::test_milk")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


def make_run(root: Path, name: str, *, passed: int, is_own: bool = True, until: float | None = None) -> RunFolder:
    """Make a run with three tests, some of which pass before any change."""
    folder = RunFolder(root, name)
    if is_own:
        adopt_run(root / "home", folder.run)
    counts = {"pass": passed, "fail": 2 - passed, "flaky": 1}
    folder.row(90, "baseline", tests=3, counts=counts, skipped=0, root_causes=0)
    for test in TESTS:
        folder.task(test, 100, ("fixed", "fixed", "confirmed"))
    folder.row(8000, "ended", outcome="settled")
    folder.write(until=until)
    return folder


def read_rows(folder: RunFolder) -> list[list[str]]:
    """Write the report of a run, and return the cells of the table with all runs."""
    page = Path(folder.report()).with_name("trends.html").read_text().partition('id="runs"')[2]
    rows = page.partition("<tbody>")[2].partition("</tbody>")[0].split("<tr>")[1:]
    return [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in rows]


def make_summary(number: int) -> RunSummary:
    return RunSummary(
        run=f"run-{number}", at=f"2025-01-01T00:{number // 60:02d}:{number % 60:02d}.000Z", seconds=60.0, tests=10, passed_before=5, tests_after=10,
        passed_after=9, flaky=1, tasks=5, confirmed=4, tokens=1000, cost=1.5,
    )  # fmt: skip


def test_the_trends_page_shows_the_numbers_of_earlier_runs(tmp_path: Path) -> None:
    make_run(tmp_path, "monday", passed=0)
    rows = read_rows(make_run(tmp_path, "tuesday", passed=1))
    assert {row[0]: row[2:4] for row in rows} == {"monday": ["3", "0"], "tuesday": ["3", "1"]}
    assert {row[0]: row[7] for row in rows} == {"monday": "3", "tuesday": "3"}


def test_the_numbers_of_a_deleted_run_stay(tmp_path: Path) -> None:
    monday = make_run(tmp_path, "monday", passed=0)
    monday.report()
    shutil.rmtree(monday.run.path)
    assert {row[0] for row in read_rows(make_run(tmp_path, "tuesday", passed=1))} == {"monday", "tuesday"}


def test_a_run_that_this_home_did_not_create_is_not_counted(tmp_path: Path) -> None:
    make_run(tmp_path, "foreign", passed=0, is_own=False)
    assert [row[0] for row in read_rows(make_run(tmp_path, "tuesday", passed=1))] == ["tuesday"]


def test_the_numbers_of_a_run_that_has_not_ended_are_not_kept(tmp_path: Path) -> None:
    running = make_run(tmp_path, "monday", passed=0, until=110)
    assert [row[0] for row in read_rows(running)] == ["monday"]
    assert RunSummaryFile(Home(str(tmp_path / "home")), str(tmp_path)).read() == {}
    running.write()
    running.report()
    assert list(RunSummaryFile(Home(str(tmp_path / "home")), str(tmp_path)).read()) == ["monday"]


def test_the_first_page_links_to_the_trends_when_there_are_two_runs(tmp_path: Path) -> None:
    monday = make_run(tmp_path, "monday", passed=0)
    assert "trends.html" not in Path(monday.report()).read_text()
    page = Path(make_run(tmp_path, "tuesday", passed=1).report()).read_text()
    assert '<a href="trends.html">trends over 2 runs</a>' in page


def test_only_the_latest_runs_are_kept(tmp_path: Path) -> None:
    file = RunSummaryFile(Home(str(tmp_path / "home")), str(tmp_path))
    file.add(make_summary(number) for number in range(MAX_RUNS + 20))
    assert set(file.read()) == {f"run-{number}" for number in range(20, MAX_RUNS + 20)}


def test_the_plots_fit_on_a_narrow_screen_and_show_text_of_tests_as_plain_text(
    browser: Browser, tmp_path: Path
) -> None:
    home = Home(str(tmp_path / "home"))
    folder = make_run(tmp_path, "monday", passed=1)
    RunSummaryFile(home, str(tmp_path)).add(make_summary(number) for number in range(40))
    with FlakyTestFile(home, str(tmp_path)).edit_rows() as rows:
        rows[EVIL] = FlakyTest(test=EVIL, first_seen="", last_seen="2026-11-12", runs=12, fails=3, why=EVIL)
    page = Path(folder.report()).with_name("trends.html")
    for width in (1400, 390):
        browser.resize(width, 900)
        browser.open(f"file://{page}")
        assert browser.ask("document.documentElement.scrollWidth <= innerWidth")
    titles = browser.ask("[...document.querySelectorAll('.plot figcaption')].map(each => each.innerText)")
    assert [title.partition(" ")[2].strip() for title in titles] == ["Tests that pass", "Flaky tests", "Cost", "Time"]
    assert browser.ask("document.querySelectorAll('.plot .after circle').length") == 40
    assert "run-7: 90% with all merged changes" in browser.ask("document.querySelector('.plot svg').textContent")
    assert EVIL in browser.ask("document.body.innerText") and browser.ask("typeof window.hacked") == "undefined"
    assert browser.complaints == []
