"""Reading an agent's claim: valid ones are read, and invalid ones get a sentence about each problem."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mngr.base.json_structs import encode
from mngr.tmr.verify.claim import (
    CHANGE_KINDS,
    ESCALATION_KINDS,
    MAX_BYTES,
    OUTCOMES,
    AgentClaim,
    parse_claim,
    read_claim,
)

WHOLE: dict[str, Any] = {
    "v": 1, "task": "t", "outcome": "fixed", "before": "fail", "after": "pass", "summary": "**done** ✓",
    "changes": [{"kind": "FIX_IMPL", "summary": "s", "commits": ["0123abc", "f" * 40]}],
    "escalations": [{"kind": "BLOCKER", "title": "t", "detail": "d", "locations": [{"path": "a.py", "line": 3}]}],
    "runs": [{"name": "n", "description": "d"}],
}  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(OUTCOMES),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.sampled_from(["kind", "path", "line", "x"]), inside, max_size=3),
    max_leaves=6,
)  # fmt: skip


def list_problems(**changes: Any) -> list[str]:
    parsed = parse_claim(json.dumps({**WHOLE, **changes}), "t")
    return parsed if isinstance(parsed, list) else []


def test_a_valid_claim_is_read_and_written_unchanged() -> None:
    claim = parse_claim(json.dumps(WHOLE), "t")
    assert isinstance(claim, AgentClaim) and encode(claim) == WHOLE
    minimal = {key: WHOLE[key] for key in ("v", "task", "before", "after", "summary")} | {"outcome": "unchanged"}
    assert isinstance(parse_claim(json.dumps(minimal), "t"), AgentClaim)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"v": 2}, '"v" is 2; it must be 1.'),
        ({"v": True}, '"v" is true; it must be 1.'),
        ({"task": "u"}, '"task" is "u", but this task is "t".'),
        ({"outcome": "done"}, f'"outcome" is "done"; it must be one of {", ".join(OUTCOMES)}.'),
        ({"after": None}, '"after" is null; it must be one of pass, fail, flaky.'),
        ({"summary": "x" * 20_001}, "summary has 20001 characters; at most 20000 are allowed."),
        ({"sumary": "x"}, "result.json has \"sumary\", which is not a known key; did you mean 'summary'?"),
        ({"changes": {}}, "changes is an object; it must be a list."),
        ({"changes": [[]] * 101}, "changes has 101 entries; at most 100 are allowed."),
        ({"changes": [3]}, "changes[0] is 3; it must be an object."),
        (
            {"changes": [{"kind": "FIX", "summary": "s", "commits": []}]},
            f'changes[0].kind is "FIX"; it must be one of {", ".join(CHANGE_KINDS)}.',
        ),
        (
            {"changes": [{"kind": "FIX_DOC", "summary": "s", "commits": ["HEAD"]}]},
            'changes[0].commits has "HEAD", which is not a commit id.',
        ),
        (
            {"escalations": [{"kind": "x", "title": "s"}]},
            f'escalations[0].kind is "x"; it must be one of {", ".join(ESCALATION_KINDS)}.',
        ),
        (
            {"escalations": [{"kind": "BLOCKER", "title": "s", "locations": [{"path": "a", "line": 0}]}]},
            "escalations[0].locations[0].line is 0; it must be a line number.",
        ),
        ({"runs": [{"description": "d"}]}, 'runs[0] has no "name".'),
        ({"after": "fail"}, '"outcome" is "fixed" but "after" is "fail": one of them is wrong.'),
        ({"changes": []}, '"outcome" is "fixed" but "changes" is empty: list your commits in it.'),
        (
            {"outcome": "unchanged"},
            '"outcome" is "unchanged" but "changes" is not empty: one of them is wrong.',
        ),
    ],
)
def test_each_problem_has_one_sentence(changes: dict[str, Any], said: str) -> None:
    assert list_problems(**changes) == [said]


@pytest.mark.parametrize("text", ["", "[", "[NaN]", "[1" + "2" * 5000 + "]", '{"a": 1, "a": 2}', "[" * 100_000, "3"])
def test_invalid_json_gives_one_short_problem(text: str) -> None:
    problems = parse_claim(text, "t")
    assert isinstance(problems, list) and len(problems) == 1 and len(problems[0]) < 300


@given(field=st.sampled_from(sorted(WHOLE)), value=JSON)
def test_any_json_value_in_a_field_is_accepted_or_explained(field: str, value: Any) -> None:
    parsed = parse_claim(json.dumps({**WHOLE, field: value}), "t")
    if isinstance(parsed, AgentClaim):
        assert isinstance(parse_claim(json.dumps(encode(parsed)), "t"), AgentClaim)
    else:
        assert parsed and all(problem.isprintable() for problem in parsed)


def test_a_large_claim_is_checked_quickly() -> None:
    started = time.monotonic()
    many = {f"k{number}": 0 for number in range(80_000)}
    assert len(list_problems(**many)) == 8
    twice = "{" + ",".join(f'"k{number}":0' for number in range(60_000)) + ',"k59999":1}'
    assert "twice" in parse_claim(twice, "t")[0]  # type: ignore[index]
    assert time.monotonic() - started < 10


def test_only_a_regular_file_of_limited_size_is_read(tmp_path: Path) -> None:
    path = tmp_path / "result.json"

    def read_problem() -> str:
        problems = read_claim(str(path), "t")
        assert isinstance(problems, list)
        return problems[0]

    assert read_problem() == "result.json does not exist."
    path.write_text(json.dumps(WHOLE))
    assert isinstance(read_claim(str(path), "t"), AgentClaim)
    path.write_bytes(b'{"v": "\xff"}')
    assert read_problem() == "result.json is not UTF-8: byte 8 is invalid."
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    assert "larger than 1 MB" in read_problem()
    path.unlink()
    os.mkfifo(path)
    assert read_problem() == "result.json is not a regular file."
