"""The changes of a run as its page lists them."""

from __future__ import annotations

from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.base.size_format import format_count
from mngr.mapreduce.run_dir import RunDir
from mngr.tmr.changes.changes_file import load_changes
from mngr.tmr.changes.collect_changes import Change
from mngr.tmr.changes.integration_record import Integration, find_integration


class ListedChange(Struct):
    """A change, with what the last integration did with it."""

    id: str
    kind: str
    title: str
    size: str
    tasks: str
    is_flagged: bool
    is_included: bool
    note: str  # its commit, or why it is not in the branch


def list_changes(run: RunDir) -> list[ListedChange]:
    """Return the changes of a run, or none when it has none yet or they cannot be read."""
    try:
        record = load_changes(run)
        integration = find_integration(run) or Integration()
    except (MngrError, OSError, ValueError):
        return []
    return [_describe_change(change, integration) for change in record.changes]


def _describe_change(change: Change, integration: Integration) -> ListedChange:
    size = change.size
    is_included, note = _find_result(change, integration)
    return ListedChange(
        id=change.id,
        kind=change.kind,
        title=change.title,
        size=f"+{size.added} −{size.removed} in {format_count(size.files, 'file')}",
        tasks=format_count(len(change.made_by), "task"),
        is_flagged=change.flagged,
        is_included=is_included,
        note=note,
    )


def _find_result(change: Change, integration: Integration) -> tuple[bool, str]:
    """Return whether the branch contains a change, and its commit or the reason. Ids may have been shorter then."""
    for commit in integration.commits:
        if any(change.key.startswith(change_id) for change_id in commit.changes):
            return True, f"in the branch, {commit.commit[:10]}"
    for excluded in integration.excluded:
        if change.key.startswith(excluded.change):
            return False, f"left out: {excluded.reason}"
    return False, "not integrated yet"
