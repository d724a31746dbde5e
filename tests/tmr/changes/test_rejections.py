"""Why people said no: kept between runs, told to those who work at the same place, and to nobody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from mngr.tmr.changes.rejections import Rejection, RejectionFile, list_relevant_rejections, make_rejection
from mngr.tmr.prepare.history import HistoryEntry, RunHistory
from mngr.tmr.prepare.prompt import build_prompt, load_template
from tests.tmr.field import Field, fix


def reason(change: str, **more: object) -> Rejection:
    given = {"title": change, "paths": ["src/app.py"], "tests": ["tests/test_a.py::test_a"], "reason": "no", "run": "r", "at": change}  # fmt: skip
    return Rejection(**{"change": change, **given, **more})  # type: ignore[arg-type]


def test_a_change_that_was_left_out_is_told_to_the_next_agents_there(tmp_path: Path) -> None:
    field = Field(tmp_path)
    field.claim("a", ("[FIX_IMPL] One\x1b[31m", fix(1)))
    (change,) = field.changes()
    RejectionFile(str(tmp_path)).add([make_rejection(change, "prices\nare \x1b]0;x\x07cents", "r")])
    known = list(RejectionFile(str(tmp_path)).read().values())
    told = ["[FIX_IMPL] One (src/app.py): prices are cents"]
    assert list_relevant_rejections(known, "tests/test_app.py::a") == told
    assert list_relevant_rejections(known, "tests/test_b.py::b", 'File "/tmp/x/src/app.py", line 3, in f') == told
    assert list_relevant_rejections(known, "tests/test_b.py::b", "in src/app.python or old-src/app.py") == []
    assert list_relevant_rejections([known[0].replace(paths=["tests/test_b.py"])], "tests/test_b.py::b") != []
    text = build_prompt(load_template(), task="t", command=["pytest"], verdict="fail", refused=told).text
    assert f"## Refused before\n\nPeople said no to an earlier edit of this. Do not make it again; their reason says what to do instead:\n\n- {told[0]}\n\n## Job" in text  # fmt: skip
    assert "Refused before" not in build_prompt(load_template(), task="t", command=["pytest"], verdict="fail").text


def test_an_agent_is_told_little_and_the_oldest_are_forgotten(tmp_path: Path) -> None:
    reasons = RejectionFile(str(tmp_path))
    reasons.add(reason(f"{n:03}", paths=["x" * 999] * 9, reason="y" * 9999) for n in range(510))
    known = reasons.read()
    assert len(known) == 500 and "009" not in known and "010" in known
    told = list_relevant_rejections(
        [*known.values(), reason("999", tests=[], paths=["tests/test_a.py"])], "tests/test_a.py::test_a"
    )
    assert len(told) == 5 and told[0].startswith("509 (xxx") and len("".join(told)) <= 3000


def test_what_is_kept_is_added_to_forgotten_and_never_in_the_way(tmp_path: Path) -> None:
    first, second = RunHistory(str(tmp_path)), RunHistory(str(tmp_path))
    for memory, test in ((first, "a"), (second, "b")):
        memory.add([HistoryEntry(test=test, outcome="fixed", verdict=None, run="r", at="", print="")])
    assert list(first.read()) == ["a", "b"], "the second did not know of the first"
    assert first.delete_rows(["b", "c"]) == ["b"] and list(RunHistory(str(tmp_path)).tests) == ["a"]
    with pytest.raises(ValueError, match="x"), first.edit_rows() as rows:
        rows.clear()
        raise ValueError("x")
    assert list(first.read()) == ["a"] and first.delete_rows() == ["a"] and first.read() == {}
    Path(tmp_path, ".mngr/runs/memory.json").write_text('{"rows": [{"test": 3}]}')
    assert RunHistory(str(tmp_path)).tests == {} and RejectionFile(str(tmp_path)).delete_rows() == []
