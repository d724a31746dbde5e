"""Tests how the journal of a run is followed."""

from __future__ import annotations

import json
from pathlib import Path

from mngr.mapreduce.journal.journal_file import read_journal
from mngr.overview.follow_runs import JournalFollower, RunFollower
from mngr.overview.run_facts import RunTimeline
from tests.support.runfolder import RunFolder


def make_run(root: Path, count: int = 20) -> RunFolder:
    folder = RunFolder(root, "nightly")
    folder.fill(count)
    folder.write()
    return folder


def test_only_complete_rows_are_read_and_each_one_once(tmp_path: Path) -> None:
    journal = Path(make_run(tmp_path).run.journal)
    rows, data = read_journal(str(journal)), journal.read_bytes()
    follower = JournalFollower(str(journal))
    journal.write_bytes(b"")
    assert follower.read() == []
    seen = []
    for end in range(0, len(data) + 997, 997):
        journal.write_bytes(data[:end])
        seen += follower.read()
    assert seen == rows
    assert follower.read() == []


def test_a_row_that_is_longer_than_a_chunk_is_read(tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    long_row = {"v": 1, "at": "2026-11-15T10:00:00.000Z", "type": "alert", "text": "x" * 3_000_000}
    short_row = {**long_row, "text": "short"}
    journal.write_text(f"{json.dumps(long_row)}\n{json.dumps(short_row)}\n")
    assert len(JournalFollower(str(journal)).read(60.0)) == 2


def test_a_damaged_row_is_counted_and_skipped(tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    journal = Path(folder.run.journal)
    lines = journal.read_bytes().split(b"\n")
    journal.write_bytes(b"\n".join([*lines[:3], b"{damaged", *lines[3:]]))
    runs = RunFollower(str(tmp_path))
    runs.read()
    assert (runs.cards[0].damaged_rows, runs.cards[0].facts.total) == (1, 20)


def test_the_facts_of_a_run_name_counts_root_causes_and_cost(tmp_path: Path) -> None:
    history = RunTimeline(read_journal(make_run(tmp_path).run.journal))
    facts = history.build_facts(0.0)
    assert (facts.settled, facts.total, facts.counts) == (20, 20, "")
    assert facts.root_causes == "1 root cause, shared by 9 tests: 0 repaired, 0 not repaired"
    assert "tokens, $" in facts.cost
    assert facts.format_progress(facts.began_at + 60) == "20 of 20 tasks finished"


def test_the_pace_of_a_run_gives_the_remaining_time(tmp_path: Path) -> None:
    rows = read_journal(make_run(tmp_path).run.journal)
    history = RunTimeline()
    for row in rows:
        history.add_row(row)
        facts = history.build_facts(0.0)
        if facts.settled == 10:
            break
    assert facts.paced_from is not None
    progress = facts.format_progress(facts.paced_from[0] + 60)
    assert progress == "10 of 20 tasks finished, 10.0 per minute, about 1:00 left"


def test_a_root_cause_is_repaired_by_its_own_task_or_not_repaired(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "nightly")
    signature = {"kind": "program", "exception": "KeyError", "frame": "shop.py:2 price", "message": "'tea'"}
    for name in ("one", "two", "three"):
        cause = {"id": name, "title": f"cause {name}", "signature": signature, "tests": ["t::a"], "is_shared": True}
        folder.row(1, "root_cause", root_cause=cause)
        data = {"kind": "root_cause", "root_cause": name}
        folder.row(2, "task", task={"slug": f"slug-{name}", "title": name, "data": data})
    folder.row(3, "base_moved", by="slug-one", commit="c" * 40, added=True)
    folder.row(3, "root_cause_unrepaired", root_cause="two", tests=["t::a"], why="no agent fixed it")
    folder.write()
    facts = RunTimeline(read_journal(folder.run.journal)).build_facts(0.0)
    assert [(cause.title, cause.tests, cause.state) for cause in facts.causes] == [
        ("cause one", 1, "repaired"), ("cause two", 1, "not repaired"), ("cause three", 1, "open"),
    ]  # fmt: skip
