"""The report says of each test whether mngr ran it alone or in the suite, and explains results that differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from mngr.mapreduce.run_dir import make_slug
from tests.support.runfolder import RunFolder

BEFORE_OTHERS, AFTER_OTHERS = "tests/test_cart.py::test_empty_cart", "tests/test_cart.py::test_saved_cart"
NEEDS_NOTHING = "tests/test_cart.py::test_price"
# The outcomes of each test in the suite and alone.
RUNS = {
    BEFORE_OTHERS: (("suite", "fail"), ("suite", "fail"), ("alone", "pass"), ("alone", "pass")),
    AFTER_OTHERS: (("suite", "pass"), ("suite", "fail"), ("alone", "fail"), ("alone", "fail")),
    NEEDS_NOTHING: (("suite", "pass"), ("suite", "pass")),
}


@pytest.fixture
def index_path(tmp_path: Path) -> Path:
    """A report of three tests, two of which depend on other tests."""
    folder = RunFolder(tmp_path, "nightly")
    folder.row(0, "tests_collected", tests=[])
    for test, runs in RUNS.items():
        for seen, outcome in runs:
            run = {"test": test, "seen": seen, "outcome": outcome, "seconds": 0.5, "exit_code": 0, "command": "pytest"}
            folder.row(1, "baseline_run", run={**run, "why": "the cart has 1 item" if outcome == "fail" else ""})
        folder.task(test, 100, ("unchanged", "unchanged", "confirmed"))
    counts = {"pass": 1, "fails_in_suite": 1, "fails_alone": 1}
    folder.row(90, "baseline", tests=3, counts=counts, skipped=0, root_causes=0)
    folder.write()
    return Path(folder.report())


@pytest.mark.parametrize(
    ("test", "explanation"),
    [
        (BEFORE_OTHERS, "The test passes in its own process and fails after other tests"),
        (AFTER_OTHERS, "The test fails in its own process and passes after other tests"),
    ],
)
def test_the_first_page_names_and_explains_a_test_that_depends_on_other_tests(
    index_path: Path, test: str, explanation: str
) -> None:
    tile = index_path.read_text().partition("before any change</p>")[2].partition('<div class="tile')[0]
    assert f"<p>{test}. {explanation}" in tile and NEEDS_NOTHING not in tile


def test_the_first_page_says_of_each_test_whether_it_ran_alone_or_in_the_suite(index_path: Path) -> None:
    section = index_path.read_text().partition('id="tests-before-any-change"')[2].partition("</section>")[0]
    rows = [row for row in section.split("<li>") if "<code>" in row]
    assert [test in row for row, test in zip(rows, RUNS, strict=True)] == [True] * 3, "the passing test is the last"
    assert "in the suite: fail, fail; alone: pass, pass" in rows[0]
    assert "in the suite: pass, fail; alone: fail, fail" in rows[1]
    assert "in the suite: pass, pass" in rows[2] and "alone" not in rows[2]


def test_the_page_of_a_task_lists_the_runs_before_any_change(index_path: Path) -> None:
    pages = {test: (index_path.parent / "tasks" / f"{make_slug(test)}.html").read_text() for test in RUNS}
    section = pages[BEFORE_OTHERS].partition('id="before-any-change"')[2].partition("</section>")[0]
    assert section.count("<td>in the suite</td>") == 2 and section.count("<td>alone</td>") == 2
    assert "the cart has 1 item" in section and "fails after other tests" in section
    assert "fails after other tests" not in pages[NEEDS_NOTHING]
    assert pages[NEEDS_NOTHING].count("<td>in the suite</td>") == 2
