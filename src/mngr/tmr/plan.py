"""The plan of a run, `run.json`: what the user asked for. It is written once and read again on resume."""

from __future__ import annotations

import json
import os
from typing import Any

from mngr.base.errors import MngrError
from mngr.base.model import Struct
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
    per_host: int = 0
    keep_hosts: bool = False
    transfer: str = "mirror"
    sandbox: bool = False
    network: str | None = None
    yolo: bool = False
    only: str = "all"
    changed_since: str | None = None
    k: int = 2  # runs of the baseline
    verify_k: int = 3  # runs of a receipt
    verify: str = "quick"  # | full
    verify_on: str = ""  # the host for verification, as in an address
    walls: str = "on"  # | network | off: the isolation of the tests that mngr runs
    policy: dict[str, Any] = {}  # the project's additions to the rules for files
    test_timeout: float = 600.0
    tutorial: str | None = None  # the tutorial script, relative to the project's root
    tries: int = 3  # agents to try for one root cause
    integrate: bool = True  # integrate the changes at the end
    integrator: str | None = None  # the agent kind that answers questions during the integration
    limits: dict[str, Any] = {}


def save_plan(run: RunDir, plan: RunPlan) -> None:
    """Write the plan to the run's folder."""
    new_path = run.plan + ".new"
    with open(new_path, "w", encoding="utf-8") as file:
        json.dump({"v": 1, "kind": "tmr", **plan.to_dict()}, file, indent=2)
    os.replace(new_path, run.plan)


def load_plan(run: RunDir) -> RunPlan:
    """Read the plan. Raise MngrError when the run is of another kind."""
    try:
        with open(run.plan, encoding="utf-8") as file:
            data = json.load(file)
    except (OSError, ValueError) as error:
        raise MngrError(
            f"the plan of {run.name} cannot be read: {error}", "it may have been interrupted: begin a new run"
        ) from None
    if data.pop("kind", None) != "tmr":
        raise MngrError(f"{run.name} is a run of map", f"go on with it: mngr map --resume {run.name}")
    data.pop("v", None)
    return RunPlan(**{key: value for key, value in data.items() if key in RunPlan._fields})
