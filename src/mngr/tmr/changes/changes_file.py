"""Writes and reads `changes.json`: the changes of a run, and the tasks without a change."""

from __future__ import annotations

import json
import os

from mngr.base.errors import NotFound
from mngr.base.json_structs import decode, encode
from mngr.base.model import Struct
from mngr.mapreduce.run_dir import RunDir
from mngr.tmr.changes.collect_changes import Change
from mngr.tmr.changes.list_exclusions import EscalationGroup, ExcludedGroup, ExcludedTask
from mngr.tmr.prepare.journal_facts import RootCauseGivenUp


class ChangesRecord(Struct):
    """The content of `changes.json`."""

    v: int = 1
    run: str
    changes: list[Change]
    excluded: list[ExcludedTask] = []
    excluded_groups: list[ExcludedGroup] = []
    escalations: list[EscalationGroup] = []
    unrepaired_root_causes: list[RootCauseGivenUp] = []


def save_changes(run: RunDir, record: ChangesRecord) -> None:
    """Write changes.json."""
    path = _get_path(run)
    with open(f"{path}.{os.getpid()}", "w", encoding="utf-8") as file:  # `changes` and `integrate` may both write
        json.dump(encode(record), file, indent=1)
    os.replace(f"{path}.{os.getpid()}", path)


def load_changes(run: RunDir) -> ChangesRecord:
    """Return the content of changes.json. Raise NotFound when there is none, and ValueError when it is damaged."""
    try:
        with open(_get_path(run), encoding="utf-8") as file:
            return decode(ChangesRecord, json.load(file))
    except FileNotFoundError:
        raise NotFound(
            f"the run {run.name} has no changes yet", f"show the progress of the run: mngr tmr status {run.name}"
        ) from None


def _get_path(run: RunDir) -> str:
    return os.path.join(run.path, "changes.json")
