"""Provides the clean rooms and the agents' options of a run, as its plan describes them."""

from __future__ import annotations

from mngr.api import Fleet
from mngr.mapreduce.recipe import AgentOptions
from mngr.mapreduce.run_dir import RunDir
from mngr.tmr.cleanroom.clean_rooms import CleanRoomOptions, CleanRoomPool
from mngr.tmr.cleanroom.sandbox import CleanRoomSandbox, parse_isolation
from mngr.tmr.plan import RunPlan


def choose_sandbox(fleet: Fleet, plan: RunPlan) -> CleanRoomSandbox | None:
    """Return the sandbox for the tests that mngr runs, or None without isolation."""
    show = fleet.context.load_project_settings(None).get("sandbox.show") or []
    return parse_isolation(plan.walls, plan.pytest[0], show)


def open_clean_rooms(
    fleet: Fleet, run: RunDir, plan: RunPlan, name_prefix: str = "judge", max_rooms: int | None = None
) -> CleanRoomPool:
    """Return the pool of clean rooms in which claims are verified."""
    options = CleanRoomOptions(on=plan.verify_on, sandbox=choose_sandbox(fleet, plan))
    return CleanRoomPool(fleet, run.name, run.repo, options, name_prefix=name_prefix, at_once=max_rooms)


def build_agent_options(plan: RunPlan) -> AgentOptions:
    """Return the agents' options from the plan."""
    return AgentOptions(
        agent=plan.agent, args=plan.agent_args, on=plan.on, per_host=plan.per_host, keep_hosts=plan.keep_hosts, transfer=plan.transfer, sandbox=plan.sandbox,
        network=plan.network, yolo=plan.yolo, prefix="tmr",
    )  # fmt: skip
