"""Provides the clean rooms and the agents' options of a run, as its plan describes them."""

from __future__ import annotations

from mngr.api import Fleet
from mngr.mapreduce.hosts.pool import find_host_provider
from mngr.mapreduce.recipe import AgentOptions
from mngr.mapreduce.run_dir import RunDir
from mngr.tmr.cleanroom.clean_rooms import CleanRoomOptions, CleanRoomPool
from mngr.tmr.cleanroom.sandbox import parse_isolation, require_isolation
from mngr.tmr.run_plan import RunPlan


def build_room_options(
    fleet: Fleet, plan: RunPlan, on: str = "", trusted_commit: str | None = None
) -> CleanRoomOptions:
    """Return the options of clean rooms, here or on another host. Raise SandboxUnavailable if it cannot isolate tests."""
    show = fleet.context.load_project_settings(None).get("sandbox.show") or []
    sandbox = parse_isolation(plan.isolation, plan.pytest[0], show)
    if sandbox is not None:
        require_isolation(fleet.context, on)
    return CleanRoomOptions(
        on=on, sandbox=sandbox, no_sandbox_reason=plan.no_sandbox_reason, trusted_commit=trusted_commit
    )


def open_clean_rooms(
    fleet: Fleet,
    run: RunDir,
    plan: RunPlan,
    name_prefix: str = "verification",
    trusted_commit: str | None = None,
) -> CleanRoomPool:
    """Return the pool of clean rooms in which mngr runs tests. Raise SandboxUnavailable.

    Set-up uses the files of `trusted_commit`, by default of the run's base, and never those of a claim. If a provider
    creates the hosts, there are at most as many as the run has agents.
    """
    options = build_room_options(fleet, plan, plan.test_on, trusted_commit or plan.base)
    has_own_hosts = find_host_provider(fleet.context, plan.test_on) is not None
    max_rooms = plan.limits.max_agents if has_own_hosts else None
    return CleanRoomPool(fleet, run.name, run.repo, options, name_prefix=name_prefix, at_once=max_rooms)


def build_agent_options(plan: RunPlan) -> AgentOptions:
    """Return the agents' options from the plan."""
    return AgentOptions(
        agent=plan.agent,
        args=plan.agent_args,
        on=plan.on,
        agents_per_host=plan.agents_per_host,
        keep_hosts=plan.keep_hosts,
        transfer=plan.transfer,
        sandbox=plan.sandbox,
        network=plan.network,
        yolo=plan.yolo,
        name_prefix="tmr",
    )
