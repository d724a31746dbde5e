from __future__ import annotations

import json
import os
import resource
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mngr.base.errors import MngrError
from mngr.mapreduce.journal import Journal, find_writer, read_journal
from mngr.mapreduce.run_state import Task, replay_rows
from tests.conftest import BIN_DIR


def test_rows_come_back_in_order_and_a_second_writer_goes_on(tmp_path: Path) -> None:
    path = str(tmp_path / "journal.jsonl")
    with Journal(path) as journal:
        journal.write("one", number=1)
        journal.write("two", sync=False, text="é\n")
    with Journal(path) as journal:
        assert [row["type"] for row in journal.rows] == ["one", "two"]
        journal.write("three")
    assert [(row["type"], row.get("text")) for row in read_journal(path)] == [
        ("one", None), ("two", "é\n"), ("three", None),
    ]  # fmt: skip


def test_there_is_one_writer_and_it_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "journal.jsonl")
    assert find_writer(path) is None
    with Journal(path):
        assert find_writer(path) == os.getpid()
        code = f"from mngr.mapreduce.journal import Journal\nJournal({path!r}).__enter__()"
        other = subprocess.run([BIN_DIR / "python", "-c", code], capture_output=True, text=True, check=False)
        assert f"goes on in process {os.getpid()}" in other.stderr
        with pytest.raises(MngrError, match=f"goes on in process {os.getpid()}"):
            Journal(path).__enter__()
    assert find_writer(path) is None


def test_what_a_crash_left_of_a_row_was_never_true(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(str(path)) as journal:
        journal.write("one")
    whole = path.read_bytes()
    for torn in (b'{"v": 1, "type": "tw', b'{"v": 1, "ty\n', b"\0\0\0\n"):
        path.write_bytes(whole + torn)
        assert [row["type"] for row in read_journal(str(path))] == ["one"]
        with Journal(str(path)) as journal:
            journal.write("two")
        assert [row["type"] for row in read_journal(str(path))] == ["one", "two"]
        path.write_bytes(whole)
    path.write_bytes(b"nonsense\n" + whole)
    with pytest.raises(MngrError, match=r"journal\.jsonl:1 is damaged"):
        read_journal(str(path))


def test_a_full_disk_is_said_and_leaves_no_half_a_row(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    code = (
        "import resource, signal, sys\n"
        "from mngr.mapreduce.journal import Journal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        f"with Journal({str(path)!r}) as journal:\n"
        "    for number in range(1000):\n"
        "        journal.write('row', number=number)\n"
    )
    done = subprocess.run([BIN_DIR / "python", "-c", code], capture_output=True, text=True, check=False)
    assert "cannot write the journal" in done.stderr
    rows = read_journal(str(path))
    assert [row["number"] for row in rows] == list(range(len(rows))) and len(rows) > 10
    assert path.read_bytes().endswith(b"\n")
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 2000


KINDS = ("launch", "launched", "prompted", "parked", "unparked", "remind", "reminded", "pull", "pulled", "check", "checked",
         "settled", "launch_failed", "again", "alarm", "alarm_over", "fact")  # fmt: skip


def row_of(kind: str, slug: str) -> dict[str, object]:
    more: dict[str, dict[str, object]] = {
        "launch": {"agent": f"a-{slug}", "attempt": 1},
        "launched": {"id": "i", "host": "h"},
        "parked": {"reason": "quota"},
        "remind": {"number": 1},
        "pulled": {"final": True, "commit": "c", "claim": {}, "usage": None},
        "checked": {"check": {}},
        "settled": {"outcome": "done"},
        "alarm": {"text": "x"},
        "alarm_over": {"text": "x"},
    }
    return {"v": 1, "at": "2026-01-01T00:00:00.000Z", "type": kind, "slug": slug, **more.get(kind, {})}


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(["a", "b", "nobody"]))))
def test_any_rows_can_be_folded_and_folding_in_two_parts_is_the_same(steps: list[tuple[str, str]]) -> None:
    tasks = [{"v": 1, "at": "", "type": "task", "task": Task(slug=slug, title=slug).to_dict()} for slug in "ab"]
    rows = tasks + [row_of(kind, slug) for kind, slug in steps]
    state = replay_rows(json.loads(json.dumps(rows)))
    assert set(state.tasks) == {"a", "b"}
    assert repr(replay_rows(rows)) == repr(state)
    for slug in "ab":
        own = [kind for kind, of in steps if of == slug]
        if own and own[-1] == "settled":
            assert state.tasks[slug].state == "settled" and state.tasks[slug].outcome == "done"


def test_what_was_spent_and_what_for() -> None:
    def used(tokens: int, cost: float | None = 0.0) -> dict[str, object]:
        return {"input_tokens": tokens, "output_tokens": 0, "cost_usd": cost}

    def pulled(tokens: int, *, final: bool, cost: float | None = 0.5) -> dict[str, object]:
        return {**row_of("pulled", "a"), "final": final, "usage": used(tokens, cost), "before_edit": 7}

    task = {"v": 1, "at": "", "type": "task", "task": Task(slug="a", title="a").to_dict()}
    launch = row_of("launch", "a")
    state = replay_rows([
        task, launch, pulled(100, final=False), row_of("remind", "a"), pulled(130, final=True, cost=0.75),
        row_of("again", "a"), {**launch, "attempt": 2}, pulled(40, final=True, cost=0.25),
    ])  # fmt: skip
    one = state.tasks["a"]
    assert {kind: (row["input_tokens"], row["cost_usd"]) for kind, row in one.spend.items()} == {
        "work": (100, 0.5), "reminders": (30, 0.25), "retries": (40, 0.25),
    }  # fmt: skip
    assert (one.usage["input_tokens"], one.usage["cost_usd"], one.before_edit) == (170, 1.0, 7)
    state = replay_rows([task, launch, pulled(10, final=True, cost=None)])
    assert state.tasks["a"].usage["cost_usd"] is None
