"""The changes of a run as it stands now, each edit once, and what an integration made of them."""

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
    """All that is known of what is to be merged."""

    state: RunState
    base: str
    changes: list[Change]
    excluded: list[ExcludedTask]


def gather_changes(local: Host, run: RunDir) -> GatheredChanges:
    """What is settled so far, written to changes.json and kept from `git gc`; MngrError for a run of another kind."""
    load_plan(run)
    state = replay_rows(read_journal(run.journal))
    found, left = run_changes.collect_changes(local, run, state)
    base = str(git.find_commit(local, run.repo, run.ref_name("base")))
    found = deduplicate_changes(local, run.repo, base, found)
    run_changes.pin_changes(local, run, found)
    run_changes.save_changes(run, state, found, left)
    return GatheredChanges(state=state, base=base, changes=found, excluded=left)


def find_integration(run: RunDir) -> dict[str, Any] | None:
    """What the last integration wrote down; None when there was none."""
    try:
        with open(os.path.join(run.path, "integration.json"), encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise MngrError(
            f"the integration of {run.name} cannot be read: {error}",
            f"make it again: mngr tmr integrate {run.name}",
        ) from None
    return found


def save_integration(run: RunDir, data: dict[str, Any]) -> None:
    """Write it down."""
    path = os.path.join(run.path, "integration.json")
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(data, file, indent=1)
    os.replace(path + ".new", path)
