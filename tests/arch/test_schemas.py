"""The published JSON Schemas describe what mngr really reads and writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from mngr.tmr.verify.claim import AgentClaim, parse_claim
from tests.conftest import MngrProgram, run_git
from tests.support.paths import ROOT

SCHEMAS = ROOT / "docs/reference/schemas"
PROGRAM = "def add(one, other):\n    return one + other\n"
TEST = "from sums import add\n\n\ndef test_one():\n    assert add(1, 1) == 2\n"


def list_problems(name: str, document: object) -> list[str]:
    """Return how a document differs from its schema."""
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    Draft202012Validator.check_schema(schema)
    return [error.message for error in Draft202012Validator(schema).iter_errors(document)]


@pytest.mark.parametrize("name", ["agent", "event", "receipt", "result"])
def test_every_field_of_a_schema_has_a_description(name: str) -> None:
    properties = json.loads((SCHEMAS / f"{name}.json").read_text())["properties"]
    missing = [field for field, schema in properties.items() if not schema.get("description")]
    assert missing == [], "describe them in scripts/schemas.py"


def test_listed_agents_and_events_match_their_schemas(mngr: MngrProgram) -> None:
    mngr("create", "foo", "player", "-m", "hello", "--label", "team=red")
    mngr("wait", "foo")
    mngr("create", "bar", "--", "false")
    mngr("wait", "bar", "--state", "FAILED")
    agents = mngr.run_json("list", "--git")["agents"]
    assert len(agents) == 2
    assert [problem for agent in agents for problem in list_problems("agent", agent)] == []
    events = [json.loads(line) for line in mngr("events", "foo", "--format", "jsonl").out.splitlines()]
    assert events
    assert [problem for event in events for problem in list_problems("event", event)] == []


def test_the_receipt_of_a_verified_branch_matches_its_schema(mngr: MngrProgram, tmp_path: Path) -> None:
    (mngr.repo / "sums.py").write_text(PROGRAM)
    run_git(mngr.repo, "add", ".")
    run_git(mngr.repo, "commit", "-qm", "sums")
    (mngr.repo / "test_one.py").write_text(TEST)
    run_git(mngr.repo, "add", ".")
    run_git(mngr.repo, "commit", "-qm", "[ADD_TEST] Add up")
    mngr("tmr", "verify", "HEAD", "--base", "HEAD~1", "--isolation", "off", "--output", str(tmp_path / "receipts"))
    receipts = [json.loads(path.read_text()) for path in (tmp_path / "receipts").glob("*.json")]
    assert [receipt["verdict"] for receipt in receipts] == ["confirmed"]
    assert list_problems("receipt", receipts[0]) == []
    assert "not_examined" in {row["outcome"] for row in receipts[0]["experiments"]}
    receipts[0]["experiments"][0]["outcome"] = "guessed"
    assert any("'guessed' is not one of" in problem for problem in list_problems("receipt", receipts[0]))


def make_result(**changes: Any) -> dict[str, Any]:
    """Return a valid result with some fields changed."""
    change = {"kind": "FIX_IMPL", "summary": "it adds", "commits": ["1234567890ab"]}
    return {
        "v": 1, "task": "t", "outcome": "fixed", "before": "fail", "after": "pass", "summary": "done", "changes": [change],
        **changes,
    }  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {"outcome": "mended"},
        {"v": None},
        {"extra": 1},
        {"changes": [{"kind": "OTHER"}]},
        {"escalations": [{"kind": "BLOCKER"}]},
    ],
)
def test_a_result_that_mngr_rejects_does_not_match_the_schema(changes: dict[str, Any]) -> None:
    assert not isinstance(parse_claim(json.dumps(make_result(**changes)), "t"), AgentClaim)
    assert list_problems("result", make_result(**changes)) != []


def test_a_result_that_mngr_accepts_matches_the_schema() -> None:
    assert isinstance(parse_claim(json.dumps(make_result()), "t"), AgentClaim)
    assert list_problems("result", make_result()) == []
