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
from mngr.mapreduce.journal.agent_usage import AgentUsage
from mngr.mapreduce.journal.host_rows import NewHostRow
from mngr.mapreduce.journal.journal_file import Journal, decode_row, encode_row, find_writer, iter_journal, read_journal
from mngr.mapreduce.journal.journal_rows import NewTaskRow
from mngr.mapreduce.journal.replay import Replay, replay_rows
from mngr.mapreduce.journal.run_rows import AlarmRow, AlertRow, EndedRow
from mngr.mapreduce.journal.run_state import RecipeRow, RunState, Task
from tests.conftest import BIN_DIR
from tests.support.journal_file import read_json_rows


def test_a_second_writer_appends_and_rows_are_read_in_order(tmp_path: Path) -> None:
    path = str(tmp_path / "journal.jsonl")
    with Journal(path) as journal:
        journal.write(RecipeRow(type="one", fields={"number": 1}))
        journal.write(RecipeRow(type="two", fields={"text": "é\n"}), sync=False)
    with Journal(path) as journal:
        assert [encode_row(row)["type"] for row in journal.rows] == ["one", "two"]
        journal.write(RecipeRow(type="three"))
    assert [(row["type"], row.get("text")) for row in read_json_rows(path)] == [
        ("one", None), ("two", "é\n"), ("three", None),
    ]  # fmt: skip


def test_a_second_writer_is_rejected_with_the_process_id_of_the_first(tmp_path: Path) -> None:
    path = str(tmp_path / "journal.jsonl")
    assert find_writer(path) is None
    with Journal(path):
        assert find_writer(path) == os.getpid()
        code = f"from mngr.mapreduce.journal.journal_file import Journal\nJournal({path!r}).__enter__()"
        other = subprocess.run([BIN_DIR / "python", "-c", code], capture_output=True, text=True, check=False)
        assert f"is still running, in process {os.getpid()}" in other.stderr
        with pytest.raises(MngrError, match=f"is still running, in process {os.getpid()}"):
            Journal(path).__enter__()
    assert find_writer(path) is None


def test_an_incomplete_last_row_is_ignored_and_a_damaged_row_fails(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal(str(path)) as journal:
        journal.write(RecipeRow(type="one"))
    whole = path.read_bytes()
    for torn in (b'{"v": 1, "type": "tw', b'{"v": 1, "ty\n', b"\0\0\0\n"):
        path.write_bytes(whole + torn)
        assert [encode_row(row)["type"] for row in read_journal(str(path))] == ["one"]
        with Journal(str(path)) as journal:
            journal.write(RecipeRow(type="two"))
        assert [encode_row(row)["type"] for row in read_journal(str(path))] == ["one", "two"]
        path.write_bytes(whole)
    path.write_bytes(b"nonsense\n" + whole)
    with pytest.raises(MngrError, match=r"journal\.jsonl:1 is damaged"):
        read_journal(str(path))


def test_a_full_disk_fails_with_a_message_and_leaves_only_whole_rows(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    code = (
        "import resource, signal, sys\n"
        "from mngr.mapreduce.journal.journal_file import Journal\n"
        "from mngr.mapreduce.journal.run_state import RecipeRow\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
        f"with Journal({str(path)!r}) as journal:\n"
        "    for number in range(1000):\n"
        "        journal.write(RecipeRow(type='row', fields={'number': number}))\n"
    )
    process = subprocess.run([BIN_DIR / "python", "-c", code], capture_output=True, text=True, check=False)
    assert "cannot write the journal" in process.stderr
    rows = read_json_rows(str(path))
    assert [row["number"] for row in rows] == list(range(len(rows))) and len(rows) > 10
    assert path.read_bytes().endswith(b"\n")
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 2000


KINDS = ("launch", "launched", "prompted", "parked", "unparked", "remind", "reminded", "pull", "pulled", "check", "checked",
         "settled", "launch_failed", "again", "alarm", "alarm_over", "fact")  # fmt: skip


def make_row(kind: str, slug: str) -> dict[str, object]:
    fields_by_kind: dict[str, dict[str, object]] = {
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
    return {"v": 1, "at": "2026-01-01T00:00:00.000Z", "type": kind, "slug": slug, **fields_by_kind.get(kind, {})}


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(["a", "b", "nobody"]))))
def test_any_sequence_of_rows_can_be_replayed_with_the_same_result(steps: list[tuple[str, str]]) -> None:
    tasks = [{"v": 1, "at": "", "type": "task", "task": Task(slug=slug, title=slug).to_dict()} for slug in "ab"]
    rows = tasks + [make_row(kind, slug) for kind, slug in steps]
    parsed = [decode_row(row) for row in rows]
    state = replay_rows([decode_row(json.loads(json.dumps(encode_row(row)))) for row in parsed])
    assert set(state.tasks) == {"a", "b"}
    assert repr(replay_rows(parsed)) == repr(state)
    for slug in "ab":
        kinds = [kind for kind, step_slug in steps if step_slug == slug]
        if kinds and kinds[-1] == "settled":
            assert state.tasks[slug].state == "settled" and state.tasks[slug].outcome == "done"


@pytest.mark.parametrize("kind", [*KINDS, "alert", "host", "task"])
def test_a_row_that_is_added_changes_the_state_like_a_row_that_is_replayed(kind: str) -> None:
    task = {"v": 1, "at": "", "type": "task", "task": Task(slug="a", title="a").to_dict()}
    rows = [decode_row(row) for row in (task, make_row("fact", "a"), make_row("alarm", "a"))]
    details = {"text": "x", "host": "h", "provider": "p", "task": Task(slug="b", title="b").to_dict()}
    new_row = decode_row({**details, **make_row(kind, "a")})
    replay = Replay(rows)
    assert replay.state == replay_rows(rows)
    replay.add(new_row)
    assert replay.state == replay_rows([*rows, new_row])


def test_each_new_row_changes_the_one_state_of_a_replay() -> None:
    replay = Replay()
    state = replay.state
    for row in (
        NewTaskRow(task=Task(slug="a", title="a")),
        NewHostRow(host="h", provider="p"),
        AlarmRow(text="five agents failed"),
        RecipeRow(type="estimate"),
        AlertRow(text="no new agents: the budget is used up", wait_reason="the budget is used up"),
        EndedRow(outcome="settled"),
    ):
        replay.add(row)
    assert replay.state is state
    assert list(state.tasks) == ["a"] and list(state.hosts) == ["h"] and list(state.recipe_rows) == ["estimate"]
    assert state.open_alarm is not None and len(state.alerts) == 2
    assert state.wait_reason == "the budget is used up" and state.is_finished


def test_rows_of_a_skipped_type_are_not_read(tmp_path: Path) -> None:
    path = str(tmp_path / "journal.jsonl")
    with Journal(path) as journal:
        journal.write(RecipeRow(type="big", fields={"text": "x"}))
        journal.write(RecipeRow(type="small", fields={"text": '"type": "big"'}))
    assert [row.type for row in iter_journal(path, skip=["big"]) if isinstance(row, RecipeRow)] == ["small"]


def test_a_long_journal_is_read_in_parts_that_lose_no_row(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    lines = [json.dumps(encode_row(RecipeRow(type="big", fields={"n": n, "text": "x" * 1000}))) for n in range(2000)]
    path.write_text("".join(f"{line}\n" for line in lines) + '{"v": 1, "type": "cut')
    numbers = list(range(2000))
    assert [row.fields["n"] for row in read_journal(str(path)) if isinstance(row, RecipeRow)] == numbers
    assert [row.fields["n"] for row in iter_journal(str(path)) if isinstance(row, RecipeRow)] == numbers
    with Journal(str(path)) as journal:
        assert len(journal.rows) == 2000
    assert path.read_text().endswith("}\n"), "the incomplete row is cut off"
    lines[1500] = "damaged"
    path.write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(MngrError, match=r"journal.jsonl:1501 is damaged"):
        read_journal(str(path))


def test_usage_is_split_into_work_reminders_and_retries() -> None:
    def make_usage(tokens: int, cost: float | None = 0.0) -> dict[str, object]:
        return {"input_tokens": tokens, "output_tokens": 0, "cost_usd": cost}

    def make_pulled(tokens: int, *, final: bool, cost: float | None = 0.5) -> dict[str, object]:
        return {**make_row("pulled", "a"), "final": final, "usage": make_usage(tokens, cost), "tokens_before_edit": 7}

    task = {"v": 1, "at": "", "type": "task", "task": Task(slug="a", title="a").to_dict()}
    launch = make_row("launch", "a")

    def replay(*rows: dict[str, object]) -> RunState:
        return replay_rows(decode_row(row) for row in rows)

    state = replay(
        task, launch, make_pulled(100, final=False), make_row("remind", "a"), make_pulled(130, final=True, cost=0.75),
        make_row("again", "a"), {**launch, "attempt": 2}, make_pulled(40, final=True, cost=0.25),
    )  # fmt: skip
    task_state = state.tasks["a"]
    assert {kind: (usage.input_tokens, usage.cost_usd) for kind, usage in task_state.usage_by_purpose.items()} == {
        "work": (100, 0.5), "reminders": (30, 0.25), "retries": (40, 0.25),
    }  # fmt: skip
    assert task_state.usage == AgentUsage(input_tokens=170, cost_usd=1.0)
    assert task_state.tokens_before_edit == 7
    state = replay(task, launch, make_pulled(10, final=True, cost=None))
    assert state.tasks["a"].usage == AgentUsage(input_tokens=10, cost_usd=None)
