"""Finds what an edit changes of the project's set-up, which runs with the network and as the user."""

from __future__ import annotations

import os
from collections.abc import Sequence

from mngr.agents.workdir.project_setup import LOCK_FILES, list_setup_inputs
from mngr.base.config import Settings
from mngr.tmr.finding import Finding
from mngr.tmr.verify.rules.changed_file import ChangedFile
from mngr.tmr.verify.rules.path_policy import PathPolicy, PathRule

_SETUP_RULES = ("policy-lock", "policy-config", "policy-startup", "policy-setup")
_SETTINGS_PREFIX = ".mngr/settings"
_LATER_ROWS = ("tutorial", "test", "doc", "implementation")  # the row of the set-up's files comes before these


def list_setup_changes(
    settings: Settings, changes: Sequence[ChangedFile], findings: Sequence[Finding] = ()
) -> list[str]:
    """Return the changed files that decide how the project is set up, and those that the path policy holds against it.

    `settings` are those of the user's project: a commit cannot say what its set-up is.
    """
    is_set_up = bool(settings.get("project.setup"))
    paths = {path for path in _list_paths(changes) if path.startswith(_SETTINGS_PREFIX)}
    for finding in findings:
        is_relevant = is_set_up or finding.level == "refuse" or finding.path.startswith(".mngr/")
        if finding.rule in _SETUP_RULES and is_relevant:
            paths.add(finding.path)
    return sorted({*paths, *list_changed_inputs(settings, changes)})


def list_changed_inputs(settings: Settings, changes: Sequence[ChangedFile]) -> list[str]:
    """Return the changed files that set-up reads, as far as its command, the lock files and the settings name them."""
    if not settings.get("project.setup"):
        return []
    inputs = set(list_setup_inputs(settings))
    return [path for path in _list_paths(changes) if path in inputs or os.path.basename(path) in LOCK_FILES]


def add_setup_row(policy: PathPolicy, paths: Sequence[str]) -> PathPolicy:
    """Return the path policy with a row for the files that set-up reads. A lock file keeps its own row."""
    if not paths:
        return policy
    row = PathRule(
        name="setup", paths=tuple(paths), note=("FIX_IMPL",), what="it controls what the project's set-up does"
    )
    position = next(index for index, other in enumerate(policy.rows) if other.name in _LATER_ROWS)
    return policy.replace(rows=(*policy.rows[:position], row, *policy.rows[position:]))


def _list_paths(changes: Sequence[ChangedFile]) -> list[str]:
    return [path for change in changes for path in (change.path, change.old_path) if path]
