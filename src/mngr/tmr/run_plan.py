"""The plan of a run, `run.json`: what the user asked for. It is written once and read again on resume."""

from __future__ import annotations

import json
import os

from mngr.base.errors import MngrError
from mngr.base.json_structs import decode, encode
from mngr.base.model import Struct
from mngr.base.untrusted_json import as_object
from mngr.mapreduce.governor import RunLimits
from mngr.mapreduce.run_dir import RunDir


class RunPlan(Struct):
    """The options of one run, apart from its limits, which may change on resume."""

    base: str
    pytest: list[str]
    paths: list[str] = []
    args: list[str] = []  # arguments for pytest
    program: str | None = None  # the program that the project tests
    agent: str = "mechanic"
    agent_args: list[str] = []
    on: str = ""
    agents_per_host: int = 0
    keep_hosts: bool = False
    transfer: str = "mirror"
    sandbox: bool = False
    network: str | None = None
    yolo: bool = False
    only: str = "all"
    changed_since: str | None = None
    baseline_runs: int = 2  # how often the baseline runs each test
    max_tasks: int = 100  # plan passing tests up to this number of tasks
    fresh: bool = False  # run the baseline even if nothing has changed since an earlier one
    receipt_runs: int = 3  # how often a receipt runs its test
    verify: str = "quick"  # | full
    test_on: str = ""  # where mngr runs tests, as the host part of an address
    isolation: str = "on"  # | network | off: the isolation of the tests that mngr runs
    no_sandbox_reason: str = "--isolation off"  # why the tests run without isolation, if `isolation` is off
    policy: dict[str, object] = {}  # the project's additions to the rules for files
    test_timeout: float = 600.0
    tutorial: str | None = None  # the tutorial script, relative to the project's root
    root_cause_attempts: int = 3  # agents to try for one root cause
    integrate: bool = True  # integrate the changes at the end
    integrator: str | None = None  # the agent kind that answers questions during the integration
    limits: RunLimits = RunLimits()


def save_plan(run: RunDir, plan: RunPlan) -> None:
    """Write the plan to the run's folder."""
    new_path = run.plan + ".new"
    with open(new_path, "w", encoding="utf-8") as file:
        json.dump({"v": 1, "kind": "tmr", **encode(plan)}, file, indent=2)
    os.replace(new_path, run.plan)


def load_plan(run: RunDir) -> RunPlan:
    """Read the plan. Raise MngrError when the run is of another kind."""
    try:
        with open(run.plan, encoding="utf-8") as file:
            data = as_object(json.load(file))
        plan = decode(RunPlan, data) if data.get("kind") == "tmr" else None
    except (OSError, ValueError) as error:
        raise MngrError(
            f"cannot read the plan of the run {run.name}: {error}",
            "mngr may have been interrupted before it wrote the plan; start a new run: mngr tmr run",
        ) from None
    if plan is None:
        raise MngrError(f"{run.name} is a run of `mngr map`", f"continue it: mngr map --resume {run.name}")
    return plan
