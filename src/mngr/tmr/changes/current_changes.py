"""Gathers the current changes of a run, each edit once."""

from __future__ import annotations

from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host
from mngr.mapreduce.journal.journal_file import read_journal
from mngr.mapreduce.journal.replay import replay_rows
from mngr.mapreduce.journal.run_state import RunState
from mngr.mapreduce.run_dir import RunDir
from mngr.tmr.changes.changes_file import ChangesRecord, save_changes
from mngr.tmr.changes.collect_changes import Change, collect_changes, pin_changes
from mngr.tmr.changes.deduplicate import deduplicate_changes
from mngr.tmr.changes.list_exclusions import ExcludedTask, group_by_reason, list_escalations, list_unrepaired_causes
from mngr.tmr.run_plan import load_plan


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
    plan = load_plan(run)
    state = replay_rows(read_journal(run.journal))
    changes, excluded = collect_changes(local, run, state, plan.agent)
    base = str(git.find_commit(local, run.repo, run.ref_name("base"), git.ISOLATED_GIT))
    changes = deduplicate_changes(local, run.repo, base, changes)
    pin_changes(local, run, changes)
    record = ChangesRecord(
        run=run.name,
        changes=changes,
        excluded=excluded,
        excluded_groups=group_by_reason(excluded),
        escalations=list_escalations(state),
        unrepaired_root_causes=list_unrepaired_causes(state),
    )
    save_changes(run, record)
    return GatheredChanges(state=state, base=base, changes=changes, excluded=excluded)
