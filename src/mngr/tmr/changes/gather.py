"""Gathers the current changes of a run, each edit once, and loads or saves the result of its integration."""

from __future__ import annotations

import json
import os
from typing import Any

from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host
from mngr.mapreduce.journal import read_journal
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_state import RunState, replay_rows
from mngr.tmr.changes import changes as run_changes
from mngr.tmr.changes.changes import Change
from mngr.tmr.changes.deduplicate import deduplicate_changes
from mngr.tmr.changes.excluded import ExcludedTask
from mngr.tmr.plan import load_plan


class GatheredChanges(Struct):
    """The current changes of a run, and what is excluded from them."""

    state: RunState
    base: str
    changes: list[Change]
    excluded: list[ExcludedTask]


def gather_changes(local: Host, run: RunDir) -> GatheredChanges:
    """Return the changes of all settled tasks, write changes.json, and protect their commits from `git gc`.

    Raises MngrError when the run is not a `tmr` run.
    """
    load_plan(run)
    state = replay_rows(read_journal(run.journal))
    changes, excluded = run_changes.collect_changes(local, run, state)
    base = str(git.find_commit(local, run.repo, run.ref_name("base")))
    changes = deduplicate_changes(local, run.repo, base, changes)
    run_changes.pin_changes(local, run, changes)
    run_changes.save_changes(run, state, changes, excluded)
    return GatheredChanges(state=state, base=base, changes=changes, excluded=excluded)


def find_integration(run: RunDir) -> dict[str, Any] | None:
    """Return the record of the last integration, or None when there was none."""
    try:
        with open(os.path.join(run.path, "integration.json"), encoding="utf-8") as file:
            integration: dict[str, Any] = json.load(file)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise MngrError(
            f"the integration of {run.name} cannot be read: {error}",
            f"make it again: mngr tmr integrate {run.name}",
        ) from None
    return integration


def save_integration(run: RunDir, data: dict[str, Any]) -> None:
    """Write the record of an integration."""
    path = os.path.join(run.path, "integration.json")
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(data, file, indent=1)
    os.replace(path + ".new", path)
