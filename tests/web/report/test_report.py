"""Tests of the report of a run in a real Chromium, with hostile agents and three hundred tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mngr.mapreduce.run_dir import make_slug
from mngr.tmr.changes.changes_file import ChangesRecord, save_changes
from mngr.tmr.changes.collect_changes import Change, ChangeAuthor, ChangeSize
from mngr.tmr.changes.integration_record import (
    AdvisedOrder,
    BranchCommit,
    CheckResult,
    ExcludedChange,
    FailingTest,
    FailureProof,
    Integration,
    ResolvedConflict,
    SuiteCounts,
    save_integration,
)
from mngr.tmr.changes.list_exclusions import ExcludedGroup
from mngr.tmr.finding import Finding
from tests.support.browser import Browser
from tests.support.runfolder import RunFolder

EVIL = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>\"' \x1b[31mred\x1b[0m \u202egnp.exe\u202c"
IMAGE = "<img src=x onerror='window.hacked = 1'>.html"
SHOWN = "^[[31mred^[[0m [U+202E]gnp.exe[U+202C]"
BAD = f"tests/test_cart.py::test_{EVIL}"
GOOD = "tests/test_price.py::test_tea"
ROWS = "[...document.querySelectorAll('#tasks-table tbody tr')].filter(row => !row.hidden)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run with three hundred tasks, one with a complete receipt, and one with a hostile agent."""
    folder = RunFolder(tmp_path_factory.mktemp("report"), "nightly")
    folder.fill(300)
    _add_complete_task(folder)
    _add_hostile_task(folder)
    return folder


def _add_complete_task(folder: RunFolder) -> None:
    fix = folder.commit(folder.base, "[FIX_IMPL] Tea has a price\n\nIt was forgotten.", {"shop.py": "PRICES = {'tea': 3.2}\n\n\ndef price(name):\n    return PRICES[name]\n"})  # fmt: skip
    claim = {
        "outcome": "fixed", "before": "fail", "after": "pass", "summary": "Tea was not in the list.",
        "changes": [{"kind": "FIX_IMPL", "summary": "a price", "commits": [fix]}],
    }  # fmt: skip
    runs = [{"outcome": "pass", "seconds": 0.4, "exit_code": 0}] * 3
    check: dict[str, Any] = {
        "test": GOOD, "verdict": "confirmed", "reason": "it passed 3 of 3 times, and so did one affected test", "commit": fix, "base": folder.base,
        "runs": 3, "results": runs, "affected_tests": [{"test": "tests/test_cart.py::test_sum", **runs[0]}], "isolation": "bubblewrap, no network",
        "policy": [{"rule": "policy-config", "level": "note", "path": "pyproject.toml", "line": 3, "what": "settings are touched"}],
        "proofs": [{"fixes": [fix], "subject": "Tea has a price", "before": "fail", "before_why": "KeyError", "without": "fail", "is_needed": True, "is_same_reason": True}],
        "experiments": [{"name": "old_and_new", "outcome": "passed", "reason": "of 6 faults, the old test noticed 5", "trials": 13, "seconds": 2.0}],
        "environment": {"python": "3.11.2"}, "command": ["pytest", GOOD],
    }  # fmt: skip
    folder.task(GOOD, 100, ("fixed", "fixed", "confirmed"), claim=claim, check=check, commit=fix)
    folder.artifacts(GOOD, "receipt", "# what it costs\n$ shop list\n  tea 3.20\n? 0\n")
    folder.artifacts(GOOD, "baseline", "$ shop list\n! KeyError\n? 1\n", casts=(), status="failed")
    conversation = [
        {"role": "user", "text": "You work on one test"},
        {"role": "tool", "tool": "Edit", "input": {"path": "shop.py"}, "output": "done"},
        {"role": "assistant", "text": "Tea has a price now.", "model": "opus"},
    ]
    folder.files(
        GOOD,
        transcript_jsonl="".join(json.dumps(row) + "\n" for row in conversation),
        prompt_md="You work on one test",
    )
    changes = [_make_change("a1b2c3", GOOD, fix), _make_hostile_change()]
    reasons = [ExcludedGroup(group="c", reason="a check asks for less", count=7, tasks=[])]
    save_changes(folder.run, ChangesRecord(run="nightly", changes=changes, excluded_groups=reasons))
    save_integration(folder.run, _make_integration(fix))


def _make_change(change_id: str, test: str, commit: str) -> Change:
    author = ChangeAuthor(
        task=make_slug(test), title=test, agent="a", commits=[commit], claimed_commit=commit, verdict="confirmed", runs="3/3"
    )  # fmt: skip
    return Change(
        id=change_id, key=change_id, kind="fix", flagged=False, title="Tea has a price", body="", made_by=[author], commit=commit,
        parent=commit, needs=[], paths=["shop.py"], size=ChangeSize(files=1, added=3, removed=0), findings=[], fixed_tests=[test],
        author="An agent", authored="", committed="",
    )  # fmt: skip


def _make_hostile_change() -> Change:
    finding = Finding(rule=EVIL, level="note", path=EVIL, line=0, what=EVIL, old=EVIL, new=EVIL)
    change = _make_change("e0e0e0", GOOD, EVIL)
    authors = [change.made_by[0].replace(task=EVIL, agent=agent, title=EVIL) for agent in (EVIL, EVIL + "2")]
    return change.replace(
        kind=EVIL, title=f"`{EVIL}` is code", flagged=True, findings=[finding, finding], made_by=authors, fixed_tests=[]
    )


def _make_integration(fix: str) -> Integration:
    hostile = BranchCommit(commit=EVIL, tree="", changes=["e0e0e0"], kind="flagged", subject=EVIL)
    commit = BranchCommit(
        commit=fix, tree="", changes=["a1b2c3"], kind="fix", subject="`Tea` has a price", fixed_tests=[GOOD]
    )
    proof = FailureProof(test=EVIL, before="pass", after=EVIL, why=EVIL, commit=EVIL)
    return Integration(
        branch="mngr/nightly/integrated", head=fix, verdict="green", commits=[hostile, commit], open=2,
        excluded=[ExcludedChange(change="ffffff", why="breaks", reason="with it test_sum is red", proof=proof, key="", title=EVIL, kind=EVIL, tasks=[EVIL])],
        tests=SuiteCounts(all=302, passed=300, skipped=0, green=[GOOD]), regressions=[FailingTest(test=EVIL, why=EVIL)],
        still_failing=["tests/test_cart.py::test_dusty", EVIL], flaky=[EVIL],
        checks=[CheckResult(name="lint", command="", ok=True, was_ok=True, output=""), CheckResult(name=EVIL, command=EVIL, ok=False, was_ok=True, output=EVIL)],
        advised_orders=[AdvisedOrder(changes=["a1b2c3", "e0e0e0"], agent="tmr-order", reason=f"Tea is drunk by all {EVIL}", keys=[])],
        resolved=[ResolvedConflict(change="a1b2c3", others=["e0e0e0"], by="rerere", agent=None)],
    )  # fmt: skip


def _add_hostile_task(folder: RunFolder) -> None:
    text = f"{EVIL}\n" * 20
    commit = folder.commit(
        folder.base,
        f"{EVIL}\n\n{EVIL}",
        {"shop.py": f"{text}\ndiff --git a/x b/x\n", IMAGE: text},
    )
    finding = {
        "rule": EVIL,
        "level": EVIL,
        "path": EVIL,
        "line": 1,
        "what": EVIL,
        "old": EVIL,
        "new": EVIL,
    }
    claim = {
        "outcome": "fixed", "before": EVIL, "after": EVIL, "summary": EVIL + "x" * 3_000_000,
        "changes": [{"kind": EVIL, "summary": EVIL, "commits": [EVIL]}, EVIL],
        "escalations": [{"kind": EVIL, "title": EVIL, "detail": EVIL, "locations": [{"path": EVIL, "line": EVIL}, 3]}], "runs": [{"name": EVIL, "description": EVIL}],
    }  # fmt: skip
    check = {
        "test": EVIL, "verdict": "refuted", "reason": EVIL, "commit": commit, "command": [EVIL], "runs": 1,
        "results": [{"outcome": EVIL, "why": EVIL, "text": EVIL}], "affected_tests": [{"test": EVIL, "outcome": EVIL, "why": EVIL}],
        "guard": [finding], "proofs": [{"fixes": [EVIL], "subject": EVIL, "before": EVIL, "without_why": EVIL}],
        "experiments": [{"name": EVIL, "outcome": EVIL, "reason": EVIL}],
        "environment": {EVIL: EVIL}, "isolation": EVIL, "hashes": {EVIL: EVIL}, "imported_from": {EVIL: EVIL},
    }  # fmt: skip
    folder.task(BAD, 120, ("fixed", "refuted", "refuted"), claim=claim, check=check, commit=commit)
    cast = (
        json.dumps({"version": 2, "width": 80, "height": 10})
        + "\n"
        + json.dumps([0.1, "o", f"</script>{EVIL}\r\n"])
        + "\n"
    )
    folder.artifacts(BAD, "receipt", text, casts=(cast, "</script><script>window.hacked = 1</script>"))
    rows = [
        {"role": EVIL, "text": EVIL, "tool": EVIL, "at": EVIL},
        {"role": "tool", "input": {EVIL: EVIL}, "output": EVIL},
        [EVIL],
        EVIL,
    ]
    token = "ghp" + "_" + "a1B2" * 8
    folder.files(
        BAD,
        transcript_jsonl="".join(json.dumps(row) + "\n" for row in rows) + "[" * 99_999,
        prompt_md=EVIL + token,
        uncommitted_diff=EVIL,
    )
    agent_runs = Path(folder.run.task_path(make_slug(BAD), "outputs", "runs"))
    (agent_runs / "x").mkdir(parents=True)
    (agent_runs / "x" / "transcript.txt").write_text(text)
    (agent_runs / "away").symlink_to("/etc")


@pytest.fixture(scope="module")
def index_path(folder: RunFolder) -> str:
    folder.write()
    return folder.report()


def _is_inert(browser: Browser) -> bool:
    """True when no script of an agent ran, the browser reports no error, and the page loads nothing from a network."""
    is_local = all(url.startswith(("file://", "data:", "blob:")) for url in browser.fetched)
    return is_local and browser.complaints == [] and browser.ask("typeof window.hacked") == "undefined"


def test_the_index_shows_three_hundred_tasks_on_one_page(browser: Browser, index_path: str, tmp_path: Path) -> None:
    browser.open(f"file://{index_path}")
    assert browser.ask("performance.timing.loadEventEnd - performance.timing.navigationStart") < 3000
    assert browser.ask(f"{ROWS}.length") == 302
    text = browser.ask("document.body.innerText")
    for expected in ("nightly", "KeyError in shop.py:2 price", "the price of tea is nowhere promised", "mngr/nightly/integrated", "with it test_sum is red", "7 tasks: a check asks for less",
                 "300 of 302 tests pass, 1 fixed · lint check passes", "2 tasks not finished", "2 still failing",
                 "without the fix fail for the same reason with the fix pass", "conflicted with e0e0e0; git rerere resolved the conflict",
                 "the evidence for 2 fixes is equally good; tmr-order ranks this one first: Tea is drunk by all", "findings: 2"):  # fmt: skip
        assert expected in text
    assert browser.ask("document.querySelector('ol.changes b code').textContent") != "", "what is called code is"
    assert browser.ask("document.querySelectorAll('.timeline a').length") == 302
    assert browser.ask("document.querySelector('.timeline svg').getBoundingClientRect().height") < 950
    assert browser.ask("document.documentElement.scrollWidth <= innerWidth")
    assert _is_inert(browser)
    browser.photograph(tmp_path / "index.png")


def test_tasks_can_be_searched_filtered_and_sorted(browser: Browser, index_path: str) -> None:
    browser.open(f"file://{index_path}")
    browser.ask("search.value = 'TEA'; search.dispatchEvent(new Event('input'))")
    assert browser.ask(f"{ROWS}.map(row => row.dataset.slug)") == [make_slug(GOOD)]
    assert browser.ask("document.getElementById('shown').textContent") == "1"
    assert browser.ask("document.querySelectorAll('.timeline a:not(.gone)').length") == 1
    browser.open("about:blank")
    browser.open(f"file://{index_path}#outcome=refuted&kind=FIX_IMPL")  # As a shared link, or after a reload.
    results = browser.ask(f"{ROWS}.map(row => row.dataset.outcome + ' ' + row.dataset.verdict)")
    assert set(results) == {"refuted refuted"} and len(results) < 40
    browser.ask("document.getElementById('clear').click()")
    browser.ask("picks.verdict.value = 'flaky'; picks.verdict.dispatchEvent(new Event('change'))")
    assert set(browser.ask(f"{ROWS}.map(row => row.dataset.verdict)")) == {"flaky"}
    browser.ask("document.querySelectorAll('#tasks-table th button')[6].click()")
    times = browser.ask(f"{ROWS}.map(row => Number(row.cells[6].dataset.n))")
    assert times == sorted(times)


def test_a_task_page_shows_everything_from_claim_to_conversation(
    browser: Browser, index_path: str, tmp_path: Path
) -> None:
    browser.open(f"file://{index_path}")
    browser.ask(f"document.querySelector('tr[data-slug={make_slug(GOOD)}] a').click()")
    browser.wait(f"document.readyState === 'complete' && document.title === {GOOD!r}")
    browser.ask("document.querySelectorAll('details').forEach(one => { one.open = true })")
    browser.wait("document.querySelector('.ap-player')")
    text = browser.ask("document.body.innerText")
    for expected in (
        "Tea was not in the list.", "it passed 3 of 3 times", "tests/test_cart.py::test_sum", "for the same reason", "pyproject.toml:3",
        "settings are touched", "of 6 faults, the old test noticed 5", "13 trials", "bubblewrap, no network", "3.11.2", "+PRICES = {'tea': 3.2}", "$ shop list", "! KeyError",
        "Tea has a price now.", "You work on one test", "prompted",
    ):  # fmt: skip
        assert expected in text
    tops = browser.ask(
        "[...document.querySelectorAll('.sides > section, .columns > section')].map(s => s.getBoundingClientRect().top)"
    )
    assert tops[0] == tops[1] and tops[2] == tops[3]  # Claim and receipt, transcript and terminal.
    light = browser.ask("getComputedStyle(document.body).backgroundColor")
    browser.ask("document.getElementById('theme').click()")
    assert browser.ask("getComputedStyle(document.body).backgroundColor") != light
    assert _is_inert(browser)
    browser.photograph(tmp_path / "task.png")
    browser.ask("document.getElementById('theme').click()")


def test_text_from_agents_is_shown_as_plain_text(browser: Browser, index_path: str) -> None:
    browser.open(f"file://{index_path}")
    assert SHOWN in browser.ask("document.body.innerText") and _is_inert(browser)
    page = Path(index_path).parent / "tasks" / f"{make_slug(BAD)}.html"
    assert page.stat().st_size < 1_000_000
    browser.open(f"file://{page}")
    browser.ask("document.querySelectorAll('details').forEach(one => { one.open = true })")
    browser.wait("document.querySelector('.ap-player')")
    text = browser.ask("document.body.innerText")
    assert text.count(SHOWN) > 60 and "3.0M more characters are not shown" in text
    assert "\x1b" not in text and "\u202e" not in text
    assert "[redacted: a GitHub token]" in text and "root:" not in text
    files = browser.ask("[...document.querySelectorAll('.diff .file')].map(one => one.textContent)")
    assert sorted(files) == [IMAGE, "shop.py"]  # A line of a file must not look like a file header.
    assert browser.ask("typeof window.hacked") == "undefined"
    assert all(url.startswith(("file://", "data:", "blob:")) for url in browser.fetched)


def test_the_first_page_states_the_result_and_names_the_tests_that_still_fail(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "nightly")
    folder.task(GOOD, 100, ("fixed", "fixed", "confirmed"))
    folder.write()
    record = {
        "branch": "b",
        "verdict": "green",
        "still_failing": ["tests/test_cart.py::test_dusty"],
        "flaky": ["tests/test_cart.py::test_dice"],
    }
    Path(folder.run.path, "integration.json").write_text(json.dumps(record))
    page = Path(folder.report()).read_text()
    assert '<p class="lead">No regressions. 0 tests fixed, 1 still failing, 1 flaky.</p>' in page
    still_failing = page.partition("<summary>1 still failing")[2]
    assert "test_dusty" in still_failing.partition("</details>")[0]
    assert '<span class="chip c-green">' not in page and 'c-note">no regressions' in page


def test_the_first_page_says_how_clean_rooms_were_isolated(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "nightly")
    receipt = {"test": GOOD, "verdict": "confirmed", "reason": "", "commit": folder.base, "command": [], "runs": 1}
    folder.task(
        GOOD, 100, ("fixed", "fixed", "confirmed"), check={**receipt, "isolation": "bubblewrap 0.8.0; no network"}
    )
    folder.write()
    assert "clean rooms isolated by bubblewrap 0.8.0; no network" in Path(folder.report()).read_text()


@pytest.mark.parametrize("damage", [{"results": [{"outcome": 1}]}, {"guard": [EVIL]}, {"hashes": EVIL}, {"runs": None}])
def test_a_task_with_a_damaged_receipt_still_has_a_page(tmp_path: Path, damage: dict[str, Any]) -> None:
    folder = RunFolder(tmp_path, "nightly")
    check = {
        "test": GOOD,
        "verdict": "refuted",
        "reason": "no",
        "commit": folder.base,
        "command": [],
        "runs": 1,
        **damage,
    }
    folder.task(GOOD, 100, ("fixed", "refuted", "refuted"), check=check)
    folder.write()
    page = Path(folder.report()).parent / "tasks" / f"{make_slug(GOOD)}.html"
    assert "The receipt is damaged" in page.read_text()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("integration.json", '{"flaky": "test_tea"}'),
        ("integration.json", '{"advised_orders": ["a1b2c3"]}'),
        ("integration.json", "[" * 10),
        ("changes.json", '{"run": "nightly", "changes": [{"id": "a1b2c3"}]}'),
        ("changes.json", "3"),
    ],
)
def test_a_report_says_that_changes_or_integration_are_damaged(tmp_path: Path, name: str, content: str) -> None:
    folder = RunFolder(tmp_path, "nightly")
    folder.task(GOOD, 100, ("fixed", "fixed", "confirmed"))
    folder.write()
    Path(folder.run.path, name).write_text(content)
    page = Path(folder.report()).read_text()
    problem = "The changes cannot be read: " if name == "changes.json" else "cannot read the integration of nightly: "
    assert problem in page and make_slug(GOOD) in page


def test_an_open_report_follows_a_running_run(browser: Browser, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "nightly")
    folder.fill(3)
    folder.write(until=105)
    browser.open(f"file://{folder.report()}#text=test_")
    assert browser.ask(f"{ROWS}.map(row => row.dataset.outcome)") == ["working"] * 3
    folder.write()
    folder.report()
    browser.ask("document.querySelector('[data-live]') && look()")
    state = "document.querySelector('h1 .chip')?.textContent === 'settled'"
    browser.wait(f"document.readyState === 'complete' && {state}")
    assert browser.ask("search.value") == "test_" and not browser.ask("document.querySelector('[data-live]')")
