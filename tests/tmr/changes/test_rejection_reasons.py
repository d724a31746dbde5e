"""Tests rejections of changes: kept between runs, and shown only to agents that work on the same files."""

from __future__ import annotations

from pathlib import Path

import pytest

from mngr.base.paths import Home
from mngr.tmr.changes.rejection_reasons import Rejection, RejectionFile, list_relevant_rejections, make_rejection
from mngr.tmr.prepare.history.earlier_results import HistoryEntry, RunHistory
from mngr.tmr.prepare.prompt import TaskDescription, build_prompt, load_template
from tests.tmr.field import Field, fix


def build_rejection(change: str, **more: object) -> Rejection:
    defaults = {"title": change, "paths": ["src/app.py"], "tests": ["tests/test_a.py::test_a"], "reason": "no", "run": "r", "at": change}  # fmt: skip
    return Rejection(**{"change": change, **defaults, **more})  # type: ignore[arg-type]


def test_a_rejection_is_shown_to_later_agents_of_the_same_files(tmp_path: Path) -> None:
    field = Field(tmp_path)
    field.claim("a", ("[FIX_IMPL] One\x1b[31m", fix(1)))
    (change,) = field.changes()
    RejectionFile(Home(str(tmp_path / "home")), str(tmp_path)).add(
        [make_rejection(change, "prices\nare \x1b]0;x\x07cents", "r")]
    )
    rejections = list(RejectionFile(Home(str(tmp_path / "home")), str(tmp_path)).read().values())
    summaries = ["[FIX_IMPL] One (src/app.py): prices are cents"]
    assert list_relevant_rejections(rejections, "tests/test_app.py::a") == summaries
    assert (
        list_relevant_rejections(rejections, "tests/test_b.py::b", 'File "/tmp/x/src/app.py", line 3, in f')
        == summaries
    )
    assert list_relevant_rejections(rejections, "tests/test_b.py::b", "in src/app.python or old-src/app.py") == []
    assert list_relevant_rejections([rejections[0].replace(paths=["tests/test_b.py"])], "tests/test_b.py::b") != []
    task = TaskDescription(task="t", command=["pytest"], verdict="fail")
    text = build_prompt(load_template(), task.replace(rejections=summaries)).text
    assert f"## Rejected edits\n\nPeople rejected earlier edits of this code. Do not repeat them. Follow the reasons that people gave:\n\n- {summaries[0]}\n\n## Job" in text  # fmt: skip
    assert "Rejected edits" not in build_prompt(load_template(), task).text


def test_an_agent_sees_few_rejections_and_the_oldest_are_dropped(tmp_path: Path) -> None:
    file = RejectionFile(Home(str(tmp_path / "home")), str(tmp_path))
    file.add(build_rejection(f"{n:03}", paths=["x" * 999] * 9, reason="y" * 9999) for n in range(510))
    rejections = file.read()
    assert len(rejections) == 500 and "009" not in rejections and "010" in rejections
    summaries = list_relevant_rejections(
        [*rejections.values(), build_rejection("999", tests=[], paths=["tests/test_a.py"])], "tests/test_a.py::test_a"
    )
    assert len(summaries) == 5 and summaries[0].startswith("509 (xxx") and len("".join(summaries)) <= 3000


def test_history_files_merge_and_delete_rows_and_ignore_unreadable_content(tmp_path: Path) -> None:
    first, second = (
        RunHistory(Home(str(tmp_path / "home")), str(tmp_path)),
        RunHistory(Home(str(tmp_path / "home")), str(tmp_path)),
    )
    for history, test in ((first, "a"), (second, "b")):
        history.add([HistoryEntry(test=test, outcome="fixed", verdict=None, run="r", at="", fingerprint="")])
    assert list(first.read()) == ["a", "b"], "the second did not know of the first"
    assert first.delete_rows(["b", "c"]) == ["b"] and list(
        RunHistory(Home(str(tmp_path / "home")), str(tmp_path)).tests
    ) == ["a"]
    with pytest.raises(ValueError, match="x"), first.edit_rows() as rows:
        rows.clear()
        raise ValueError("x")
    assert list(first.read()) == ["a"] and first.delete_rows() == ["a"] and first.read() == {}
    (file,) = (tmp_path / "home").glob("history/*/memory.json")
    file.write_text('{"rows": [{"test": 3}]}')
    assert (
        RunHistory(Home(str(tmp_path / "home")), str(tmp_path)).tests == {}
        and RejectionFile(Home(str(tmp_path / "home")), str(tmp_path)).delete_rows() == []
    )
