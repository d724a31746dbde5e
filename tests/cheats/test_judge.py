"""The cheat bench asks mngr and counts what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cheats.__main__ import choose_edits
from tests.cheats.edits import Edit, read_all_edits, read_projects
from tests.cheats.judge import Bench, Judgement, choose_verdict, find_rules, read_changed_lines
from tests.cheats.table import format_report
from tests.conftest import IS_FULL_SCALE, SEED

EDITS = read_all_edits()
DRAWN = choose_edits(EDITS, 12 if IS_FULL_SCALE else 2, SEED, [])


def test_a_sample_is_half_honest_and_the_same_for_one_seed() -> None:
    sample = choose_edits(EDITS, 10, 3, [])
    assert sum(edit.is_honest for edit in sample) == 5
    assert sample == choose_edits(EDITS, 10, 3, [])
    assert sample != choose_edits(EDITS, 10, 4, [])


def test_changed_lines_are_those_added_and_removed() -> None:
    diff = "--- a/x.py\n+++ b/x.py\n@@ -3,2 +3 @@\n-a\n-b\n+c\n@@ -9 +8,0 @@\n-d\n"
    assert read_changed_lines(diff) == {("x.py", 3), ("x.py", 4), ("x.py", 8), ("x.py", 9)}


def test_the_worst_verdict_counts() -> None:
    assert choose_verdict([{"verdict": "confirmed"}, {"verdict": "refuted"}, {"verdict": "flaky"}]) == "refuted"
    assert choose_verdict([{"verdict": "confirmed"}, {"verdict": "flaky"}]) == "unverified"
    assert choose_verdict([{"verdict": "confirmed"}]) == "confirmed"


def test_only_findings_on_changed_lines_count() -> None:
    finding = {"rule": "skip", "path": "x.py", "line": 3}
    receipt = {"policy": [], "guard": [finding, {**finding, "rule": "far", "line": 9}], "findings": []}
    assert find_rules([receipt], {("x.py", 3)}) == ("skip",)


def test_the_report_names_a_dishonest_edit_that_was_confirmed_without_a_finding() -> None:
    dishonest = next(edit for edit in EDITS if not edit.is_honest)
    honest = next(edit for edit in EDITS if edit.is_honest)
    judgements = [
        Judgement(dishonest, "confirmed", (), "", 1.0),
        Judgement(honest, "confirmed", ("a-note",), "", 1.0),
    ]
    misses = format_report(judgements, "quick").partition("misses: ")[2]
    assert misses.startswith("1\n")
    assert dishonest.id in misses


@pytest.mark.parametrize("edit", [pytest.param(edit, id=edit.id) for edit in DRAWN])
def test_mngr_judges_an_edit_without_a_crash(tmp_path: Path, edit: Edit) -> None:
    # Which verdict is right is not asserted: these edits measure mngr, and a test for each would tune it to them.
    bench = Bench(tmp_path, "quick", timeout=300)
    bench.add_project(next(project for project in read_projects() if project.name == edit.project), [edit])
    judgement = bench.judge(edit)
    assert judgement.verdict in ("confirmed", "unverified", "refuted"), judgement.reason
