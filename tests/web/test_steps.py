"""A reader steps through the commands of a test: transcript, recording and changed files move together."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mngr.e2e import E2eSession
from mngr.e2e.session import TestDescription
from mngr.mapreduce.run_dir import make_slug
from mngr.web import artifacts
from mngr.web.live.e2e.export import export_pages
from tests.support.browser import Browser
from tests.support.runfolder import RunFolder

EVIL = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
RUN, TEST = "20260102-030405-abcd", "tests/test_shop.py::test_list"
CURRENT = "[...document.querySelectorAll('.transcript .current')].map(line => line.textContent)"
FILES = "[...document.querySelectorAll('.step-files:not([hidden]) code')].map(each => each.textContent)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


def run_test(artifacts_dir: Path) -> None:
    """Run a test with three steps: a command, a program in a terminal, and a key in this terminal."""
    session = E2eSession(artifacts_dir / RUN / "test_list-1", TestDescription(TEST, file="tests/test_shop.py"))
    session.run("echo tea >list; echo 'done'")
    with session.tty("echo one; read line; echo two; sleep 0.1", name="shop") as terminal:
        terminal.wait_for("one")
        terminal.press("Enter")
        terminal.wait_for("two")
        terminal.wait()
    session.run(f"cat >list <<'E'\n{EVIL}\nE")
    session.close()
    session.save_status("passed")


def check_steps(browser: Browser) -> None:
    """Go through the steps of the open page, and check what each of them shows."""
    browser.wait("document.querySelector('.player').player")
    assert browser.ask("document.querySelectorAll('.current').length") == 0
    go_on, go_back = (f"document.querySelectorAll('.stepper button')[{index}].click()" for index in (1, 0))
    browser.ask(go_on)
    assert browser.ask(CURRENT) == ["$ echo tea >list; echo 'done'", "  done", "? 0"]
    assert browser.ask(FILES) == ["list"]
    browser.ask(go_on)
    assert browser.ask(CURRENT)[0].startswith("$ echo one") and browser.ask(FILES) == []
    browser.wait("/one(?![^]*two)/.test(document.querySelector('.player').innerText)")
    browser.ask(go_on)
    assert browser.ask(CURRENT)[0] == "# [shop] pressed Enter"
    browser.wait("/two/.test(document.querySelector('.player').innerText)")
    browser.ask(go_back)
    browser.wait("!/two/.test(document.querySelector('.player').innerText)")
    browser.ask("document.querySelector('.transcript > [data-step=\"3\"]').click()")
    assert browser.ask("document.querySelector('.stepper span').textContent") == "step 4 of 4"
    assert browser.ask(FILES) == ["list"] and EVIL in browser.ask("document.querySelector('.lines').parentNode.parentNode.parentNode.innerText")  # fmt: skip
    assert browser.ask("typeof window.hacked") == "undefined"
    assert browser.ask("document.documentElement.scrollWidth <= innerWidth")


def test_the_page_of_a_test_steps_through_its_commands(browser: Browser, tmp_path: Path) -> None:
    run_test(tmp_path / "e2e")
    export_pages(str(tmp_path / "e2e"), str(tmp_path / "pages"))
    for width in (1400, 390):
        browser.resize(width, 900)
        browser.open(f"file://{tmp_path}/pages/{RUN}/test_list-1/index.html")
        check_steps(browser)
        assert browser.complaints == []


def test_the_report_of_a_run_steps_through_the_commands_of_a_test(browser: Browser, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "nightly")
    folder.task(TEST, 100, ("fixed", "fixed", "confirmed"))
    run_test(tmp_path / "e2e")
    receipt = Path(folder.run.task_path(make_slug(TEST), "receipt"))
    receipt.parent.mkdir(parents=True)
    (tmp_path / "e2e" / RUN).rename(receipt)
    folder.write()
    page = Path(folder.report()).parent / "tasks" / f"{make_slug(TEST)}.html"
    browser.resize(1400, 900)
    browser.open(f"file://{page}")
    check_steps(browser)
    assert browser.complaints == []


@pytest.mark.parametrize(
    "row",
    ["[" * 100_000, "3", "{}", '{"line": -1, "at": 0}', '{"line": "x", "at": 0}', '{"line": 0, "at": null}', '{"line": 1e999, "at": 0}'],
)  # fmt: skip
def test_a_damaged_step_is_left_out(tmp_path: Path, row: str) -> None:
    directory = tmp_path / "run" / "test"
    directory.mkdir(parents=True)
    good = json.dumps({"line": 3, "at": 1.5, "files": [{"path": 1, "diff": [2, "+x"]}, 3], "terminal": []})
    (directory / "steps.jsonl").write_text(f"{row}\n{good}\n")
    [step] = artifacts.read_steps(str(tmp_path), "run", "test")
    assert (step.line, step.at, step.terminal) == (3, 1.5, "")
    assert [(file.path, file.diff) for file in step.files] == [("", ["+x"])]


def test_steps_that_are_a_link_are_not_read(tmp_path: Path) -> None:
    directory = tmp_path / "run" / "test"
    directory.mkdir(parents=True)
    (tmp_path / "secret").write_text('{"line": 0, "at": 0}\n')
    (directory / "steps.jsonl").symlink_to(tmp_path / "secret")
    assert artifacts.read_steps(str(tmp_path), "run", "test") == []
