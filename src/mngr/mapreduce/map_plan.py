"""The plan of a run of `mngr map`, `run.json`. It is written once and read again on resume."""

from __future__ import annotations

import json

from mngr.base.errors import MngrError
from mngr.base.json_structs import decode, encode
from mngr.base.model import Struct
from mngr.base.untrusted_json import as_object
from mngr.mapreduce.governor import RunLimits
from mngr.mapreduce.recipe import AgentOptions
from mngr.mapreduce.run_dir import RunDir


class MapPlan(Struct):
    """The items of a run and how agents work on them."""

    items: list[str]
    prompt: str | None  # the template; None when each item gets a command
    args: list[str]  # the command, or arguments for the agent's program
    agent: str
    output: str | None = None  # the output file that every agent must write
    base: str | None = None
    limits: RunLimits = RunLimits()
    options: AgentOptions | None = None


def save_map_plan(run: RunDir, plan: MapPlan) -> None:
    """Write the plan to the run's folder."""
    with open(run.plan, "w", encoding="utf-8") as file:
        json.dump({"v": 1, "kind": "map", **encode(plan)}, file, indent=2)


def load_map_plan(run: RunDir) -> MapPlan:
    """Read the plan. Raise MngrError when the run is not one of `mngr map`."""
    with open(run.plan, encoding="utf-8") as file:
        data = as_object(json.load(file))
    if data.get("kind") != "map":
        raise MngrError(f"{run.name} is a run of `mngr tmr`", f"continue it: mngr tmr resume {run.name}")
    return decode(MapPlan, data)
