"""Conflicts that agents resolve: who is asked, which answers count, and what is not asked twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mngr import AgentSpec, Fleet
from mngr.mapreduce.governor import RunLimits
from mngr.mapreduce.journal.journal_file import encode_row
from mngr.tmr.changes.collect_changes import Change
from mngr.tmr.integrate.conflict_agents import UnmergedChange, resolve_conflicts
from mngr.tmr.run_plan import RunPlan
from tests.conftest import MngrProgram
from tests.tmr.field import Field, app, fix

pytestmark = pytest.mark.agents

BEGIN = {"run": "git switch -q -C mngr/r/${TASK%-own} refs/mngr/given"}
EMPTY = {"run": "git commit -q --allow-empty -m x"}
SPENT = {"spend": {"input_tokens": 1000, "output_tokens": 10, "cost_usd": 1.0}}
MORE = {"spend": {"input_tokens": 100, "output_tokens": 1, "cost_usd": 0.25}}


def merge_steps(number: int) -> list[Any]:
    """Return steps that write both sides into one file and commit."""
    return [{"write": {"path": "src/app.py", "content": merged_text(number)}}, {"commit": "merged"}]


def refuse_steps(change: Change) -> list[Any]:
    """Return steps that explain why the changes cannot be merged."""
    return [BEGIN, {"run": f'echo "they contradict" >$MNGR_OUTPUT_DIR/merge-{change.id}.txt'}]


def merged_text(number: int) -> str:
    bodies = {f"f{function}": "return 1" for function in (3, 13, 23)}
    return app(**{**bodies, f"f{number}": "return 1 + 2"})


def make_conflicts(field: Field) -> tuple[str, list[UnmergedChange]]:
    """Return a head and three changes that conflict with it."""
    for slug, number, body in [
        (f"{prefix}{function}", function, f"return {prefix[1]}") for function in (3, 13, 23) for prefix in ("x1", "y2")
    ]:
        field.claim(slug, ("[FIX_IMPL] " + slug, fix(number, body)))
    changes = {change.tasks[0]: change for change in field.collapsed()}
    composed = field.compose([change for slug, change in changes.items() if slug.startswith("x")])
    assert not composed.conflicts
    return composed.head, [
        UnmergedChange(
            change=changes[f"y2{function}"],
            head=composed.head,
            others=[changes[f"x1{function}"]],
            tests=["tests/test_app.py::test_app"],
        )
        for function in (3, 13, 23)
    ]


def test_the_author_is_asked_first_then_an_integrator_and_nobody_twice(mngr: MngrProgram) -> None:
    field = Field(mngr.repo)
    head, items = make_conflicts(field)
    authors = [author.replace(agent="tmr-r-y23") for author in items[2].change.made_by]
    items[2] = items[2].replace(change=items[2].change.replace(made_by=authors))
    one, two, three = (item.change for item in items)
    out_of_scope = [*merge_steps(23)[:1], {"write": {"path": "setup.py", "content": "x\n"}}, {"commit": "merged"}]
    cases = {
        "tmr-r-y23": [SPENT, "wait", MORE, BEGIN, EMPTY, "wait", *merge_steps(3), "wait", *refuse_steps(three)],
        "tmr-r-y213": [SPENT, "wait", *refuse_steps(two)],
        f"merge-{two.id}-*": merge_steps(13),
        f"merge-{three.id}-*": out_of_scope,
    }
    script = json.dumps({"cases": [{"task": name, "steps": steps} for name, steps in cases.items()]})
    fleet = Fleet(str(mngr.home), cwd=str(mngr.repo))
    for name in ("y23", "y213"):
        spec = AgentSpec(
            address=f"tmr-r-{name}",
            kind="player",
            command=[script],
            source=field.repo,
            branch=f"{field.base}:mngr/r/{name}",
            transfer="mirror",
        )
        fleet.create(spec)
        assert fleet.message([f"tmr-r-{name}"], "begin", wait=True)[0].ok
        fleet.stop([f"tmr-r-{name}"])
    plan = RunPlan(base=field.base, pytest=["pytest"], agent="player", agent_args=[script])
    rows: list[dict[str, Any]] = []
    limits = RunLimits(timeout=60.0, budget=5.0)
    resolutions = resolve_conflicts(
        fleet, field.run, plan, limits, items, "player", lambda row: rows.append(encode_row(row))
    )
    assert {row["slug"] for row in rows if row["type"] == "remind"} == {
        _find_slug(rows, one, "-own"), _find_slug(rows, three, "-own").removesuffix("-own"),
    }  # fmt: skip
    first = resolutions[one.id]
    assert (first.by, first.agent, first.tree) == ("owner", "tmr-r-y23", commit_tree(field, head, merged_text(3))), (
        first
    )
    assert first.usage.cost_usd == 0.25 and first.usage.input_tokens == 100, "what it used for this, and no more"
    second = resolutions[two.id]
    assert (second.by, second.tree) == ("integrator", commit_tree(field, head, merged_text(13))), second
    assert second.agent is not None and second.agent.startswith(f"tmr-r-merge-{two.id}-")
    assert not [row for row in rows if row["type"] == "pull" and row.get("close_reason")], "nobody was given up"
    third = resolutions[three.id]
    assert third.tree is None and third.reason.startswith("tmr-r-y23: they contradict; tmr-r-merge-"), third
    assert third.reason.endswith("setup.py"), third
    prompt = Path(field.run.path, "integrate", "tasks", f"{_find_slug(rows, one, '-own')}", "prompt.md").read_text()
    assert items[0].others[0].title in prompt and "-    return 0\n+    return 1\n" in prompt and "test_app" in prompt
    launches = [row for row in rows if row["type"] == "launch"]
    repeated = resolve_conflicts(
        fleet, field.run, plan, limits, items, "player", lambda row: rows.append(encode_row(row))
    )
    assert repeated == resolutions and len([row for row in rows if row["type"] == "launch"]) == len(launches) == 5
    assert {agent.state for agent in fleet.list().agents} == {"STOPPED"}


def test_nobody_is_asked_if_no_agent_can_answer(mngr: MngrProgram) -> None:
    field = Field(mngr.repo)
    _, items = make_conflicts(field)
    fleet = Fleet(str(mngr.home), cwd=str(mngr.repo))
    plan = RunPlan(base=field.base, pytest=["pytest"])
    for agent in (None, "mechanic"):
        resolutions = resolve_conflicts(fleet, field.run, plan, RunLimits(), items, agent, lambda row: None)
        assert {resolution.tree for resolution in resolutions.values()} == {None}
        assert all("there is no agent to ask" in resolution.reason for resolution in resolutions.values())
    assert not Path(field.run.path, "integrate", "journal.jsonl").exists()


def test_no_agent_is_asked_when_the_budget_is_exhausted(mngr: MngrProgram) -> None:
    field = Field(mngr.repo)
    _, items = make_conflicts(field)
    usage = {
        "input_tokens": 1,
        "output_tokens": 1,
        "cache_read_tokens": 0,
        "cache_write_tokens": 0,
        "cost_usd": 3.0,
    }
    task = {"slug": "a", "title": "a"}
    journal = [
        {"type": "task", "task": task},
        {"type": "launch", "slug": "a", "agent": "a", "attempt": 1, "at": "x"},
        {"type": "pulled", "slug": "a", "usage": usage, "final": True},
    ]
    Path(field.run.journal).write_text("".join(json.dumps(row) + "\n" for row in journal))
    fleet = Fleet(str(mngr.home), cwd=str(mngr.repo))
    plan = RunPlan(base=field.base, pytest=["pytest"], agent="player")
    resolutions = resolve_conflicts(
        fleet, field.run, plan, RunLimits(budget=3.0), items[:1], "player", lambda row: None
    )
    assert next(iter(resolutions.values())).tree is None and not fleet.list().agents


def commit_tree(field: Field, head: str, text: str) -> str:
    return field.git("rev-parse", f"{field.commits(head, ('merged', {'src/app.py': text}))[0]}^{{tree}}")


def _list_slugs(rows: list[dict[str, Any]]) -> set[str]:
    return {row["task"]["slug"] for row in rows if row["type"] == "task"}


def _find_slug(rows: list[dict[str, Any]], change: Change, end: str) -> str:
    return next(slug for slug in _list_slugs(rows) if slug.startswith(f"merge-{change.id}") and slug.endswith(end))
