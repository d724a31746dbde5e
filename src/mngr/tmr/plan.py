"""What a run was asked for: `run.json`, written once and read again by whoever goes on with it."""

from __future__ import annotations

import json
import os
from typing import Any

from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.mapreduce.run_dir import RunDir


class RunPlan(Struct):
    """The wishes of one run, apart from its limits, which may change when it goes on."""

    base: str
    pytest: list[str]
    paths: list[str] = []
    args: list[str] = []  # for pytest
    program: str | None = None  # that the project is about
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
    verify_on: str = ""  # where, as in an address
    walls: str = "on"  # | network | off: around the tests that we run
    policy: dict[str, Any] = {}  # what the project adds to the rules for files
    test_timeout: float = 600.0
    tutorial: str | None = None  # the script, from the root of the project
    tries: int = 3  # agents for one shared cause
    integrate: bool = True  # at the end
    integrator: str | None = None  # a kind of agent, for what no code can know of that
    limits: dict[str, Any] = {}


def save_plan(run: RunDir, plan: RunPlan) -> None:
    """Write it down."""
    fresh = run.plan + ".new"
    with open(fresh, "w", encoding="utf-8") as file:
        json.dump({"v": 1, "kind": "tmr", **plan.to_dict()}, file, indent=2)
    os.replace(fresh, run.plan)


def load_plan(run: RunDir) -> RunPlan:
    """Read it; MngrError when the run is of another kind."""
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
