"""Conflicts by agents: who is asked, what is taken of their answers, and what is not asked twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mngr.api import Fleet
from mngr.mapreduce.governor import RunLimits
from mngr.tmr.changes.changes import Change
from mngr.tmr.integrate.conflict_agents import UnmergedChange, resolve_conflicts
from mngr.tmr.plan import RunPlan
from tests.conftest import MngrProgram
from tests.tmr.field import Field, app, fix

pytestmark = pytest.mark.agents

BEGIN = {"run": "git switch -q -C mngr/r/${TASK%-own} refs/mngr/given"}
EMPTY = {"run": "git commit -q --allow-empty -m x"}
SPENT = {"spend": {"input_tokens": 1000, "output_tokens": 10, "cost_usd": 1.0}}
MORE = {"spend": {"input_tokens": 100, "output_tokens": 1, "cost_usd": 0.25}}


def merged(number: int) -> list[Any]:
    """Steps: both sides in one file, and a commit."""
    return [{"write": {"path": "src/app.py", "content": both(number)}}, {"commit": "merged"}]


def no(change: Change) -> list[Any]:
    """Steps: it says why not."""
    return [BEGIN, {"run": f'echo "they contradict" >$MNGR_OUTPUT_DIR/merge-{change.id}.txt'}]


def both(number: int) -> str:
    bodies = {f"f{at}": "return 1" for at in (3, 13, 23)}
    return app(**{**bodies, f"f{number}": "return 1 + 2"})


def conflicts(field: Field) -> tuple[str, list[UnmergedChange]]:
    """Three pairs of changes; each second one does not go with the first."""
    for slug, number, body in [(f"{word}{at}", at, f"return {word[1]}") for at in (3, 13, 23) for word in ("x1", "y2")]:
        field.claim(slug, ("[FIX_IMPL] " + slug, fix(number, body)))
    changes = {change.tasks[0]: change for change in field.collapsed()}
    done = field.compose([change for slug, change in changes.items() if slug.startswith("x")])
    assert not done.conflicts
    return done.head, [
        UnmergedChange(
            change=changes[f"y2{at}"],
            head=done.head,
            others=[changes[f"x1{at}"]],
            tests=["tests/test_app.py::test_app"],
        )
        for at in (3, 13, 23)
    ]


def test_the_owner_is_asked_then_an_integrator_and_nobody_twice(mngr: MngrProgram) -> None:
    field = Field(mngr.repo)
    head, items = conflicts(field)
    makers = [maker.replace(agent="tmr-r-y23") for maker in items[2].change.made_by]
    items[2] = items[2].replace(change=items[2].change.replace(made_by=makers))
    one, two, three = (item.change for item in items)
    elsewhere = [*merged(23)[:1], {"write": {"path": "setup.py", "content": "x\n"}}, {"commit": "merged"}]
    cases = {
        "tmr-r-y23": [SPENT, "wait", MORE, BEGIN, EMPTY, "wait", *merged(3), "wait", *no(three)],
        "tmr-r-y213": [SPENT, "wait", *no(two)],
        f"merge-{two.id}-*": merged(13),
        f"merge-{three.id}-*": elsewhere,
    }
    script = json.dumps({"cases": [{"task": name, "steps": steps} for name, steps in cases.items()]})
    fleet = Fleet(str(mngr.home), cwd=str(mngr.repo))
    for name in ("y23", "y213"):
        fleet.create(
            f"tmr-r-{name}", "player", [script], source=field.repo, branch=f"{field.base}:mngr/r/{name}", transfer="mirror"
        )  # fmt: skip
        assert fleet.message([f"tmr-r-{name}"], "begin", wait=True)[0].ok
        fleet.stop([f"tmr-r-{name}"])
    plan = RunPlan(base=field.base, pytest=["pytest"], agent="player", agent_args=[script])
    rows: list[dict[str, Any]] = []
    limits = RunLimits(timeout=60.0, budget=5.0)
    found = resolve_conflicts(fleet, field.run, plan, limits, items, "player", rows.append)
    assert {row["slug"] for row in rows if row["type"] == "remind"} == {
        _slug(rows, one, "-own"), _slug(rows, three, "-own").removesuffix("-own"),
    }  # fmt: skip
    first = found[one.id]
    assert (first.by, first.agent, first.tree) == ("owner", "tmr-r-y23", tree(field, head, both(3))), first
    assert first.usage["cost_usd"] == 0.25 and first.usage["input_tokens"] == 100, "what it used for this, and no more"
    second = found[two.id]
    assert (second.by, second.tree) == ("integrator", tree(field, head, both(13))), second
    assert second.agent is not None and second.agent.startswith(f"tmr-r-merge-{two.id}-")
    assert not [row for row in rows if row["type"] == "pull" and row["closed"]], "nobody was given up"
    third = found[three.id]
    assert third.tree is None and third.reason.startswith("tmr-r-y23: they contradict; tmr-r-merge-"), third
    assert third.reason.endswith("setup.py"), third
    told = Path(field.run.path, "integrate", "tasks", f"{_slug(rows, one, '-own')}", "prompt.md").read_text()
    assert items[0].others[0].title in told and "-    return 0\n+    return 1\n" in told and "test_app" in told
    spent = [row for row in rows if row["type"] == "launch"]
    again = resolve_conflicts(fleet, field.run, plan, limits, items, "player", rows.append)
    assert again == found and len([row for row in rows if row["type"] == "launch"]) == len(spent) == 5
    assert {agent.state for agent in fleet.list().agents} == {"STOPPED"}


def test_without_anybody_who_could_know_nobody_is_asked(mngr: MngrProgram) -> None:
    field = Field(mngr.repo)
    _, items = conflicts(field)
    fleet = Fleet(str(mngr.home), cwd=str(mngr.repo))
    plan = RunPlan(base=field.base, pytest=["pytest"])
    for agent in (None, "mechanic"):
        found = resolve_conflicts(fleet, field.run, plan, RunLimits(), items, agent, lambda row: None)
        assert {one.tree for one in found.values()} == {None}
        assert all("nobody to ask" in one.reason for one in found.values())
    assert not Path(field.run.path, "integrate", "journal.jsonl").exists()


def test_no_money_is_left_for_it(mngr: MngrProgram) -> None:
    field = Field(mngr.repo)
    _, items = conflicts(field)
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
    found = resolve_conflicts(fleet, field.run, plan, RunLimits(budget=3.0), items[:1], "player", lambda row: None)
    assert next(iter(found.values())).tree is None and not fleet.list().agents


def tree(field: Field, head: str, text: str) -> str:
    return field.git("rev-parse", f"{field.commits(head, ('merged', {'src/app.py': text}))[0]}^{{tree}}")


def _slugs(rows: list[dict[str, Any]]) -> set[str]:
    return {row["task"]["slug"] for row in rows if row["type"] == "task"}


def _slug(rows: list[dict[str, Any]], change: Change, end: str) -> str:
    return next(slug for slug in _slugs(rows) if slug.startswith(f"merge-{change.id}") and slug.endswith(end))
