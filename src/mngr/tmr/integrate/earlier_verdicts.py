"""Reuses the exclusions of the last integration without exclusion requests.

Only that integration counts. So the same requests give the same branch, whatever was requested in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mngr.tmr.changes.changes import Change
from mngr.tmr.integrate.trial import BranchTrial, Exclusion, TrialResult

_REUSABLE_KINDS = ("breaks", "redder")


def list_earlier_exclusions(
    earlier: dict[str, Any], onto: str, chosen: Sequence[Change]
) -> tuple[list[Exclusion], list[Exclusion]]:
    """Return the exclusions that still hold, and the doubtful ones that need another test run.

    An exclusion holds if the changes that it conflicts with are chosen and no new change touches its files.
    """
    if earlier.get("onto") != onto:
        return [], []
    change_by_key = {change.key: change for change in chosen}
    new_paths = {path for change in chosen if change.key not in earlier["keys"] for path in change.paths}
    sure: list[Exclusion] = []
    doubtful: list[Exclusion] = []
    for row in earlier["rows"]:
        change = change_by_key.get(row["key"])
        if change is None:
            continue
        others = [change_by_key[key].id for key in row["others"] if key in change_by_key]
        exclusion = Exclusion(change=change.id, why=row["why"], reason=row["reason"], others=others, proof=row["proof"])
        is_sure = new_paths.isdisjoint(change.paths) and len(others) == len(row["others"])
        (sure if is_sure else doubtful).append(exclusion)
    excluded = {exclusion.change for exclusion in sure}
    return [exclusion for exclusion in sure if excluded.isdisjoint(exclusion.others)], doubtful


def list_retriable_changes(
    trial: BranchTrial,
    result: TrialResult,
    exclusions: Sequence[Exclusion],
    unsure: set[str],
    changes: Mapping[str, Change],
) -> list[Change]:
    """Return the excluded changes whose proof no longer holds, or whose conflicting changes are gone."""
    included = {change.id for change in result.chosen}
    groups: dict[tuple[str, str], list[Exclusion]] = {}  # excluded together, by test and commit of the proof
    for exclusion in exclusions:
        if exclusion.proof is not None:
            groups.setdefault((str(exclusion.proof["test"]), str(exclusion.proof["commit"])), []).append(exclusion)
    retriable: list[Change] = []
    for (test, _), members in groups.items():
        if all(exclusion.change not in unsure and included.issuperset(exclusion.others) for exclusion in members):
            continue
        group = [changes[exclusion.change] for exclusion in members]
        if not trial.list_failing_with([*result.chosen, *group], {test}) or trial.list_failing_with(
            result.chosen, {test}
        ):
            retriable += group
    return retriable


def collect_verdicts(
    last_integration: dict[str, Any], data: dict[str, Any], changes: Sequence[Change]
) -> dict[str, Any]:
    """Return the verdicts for later integrations: this one's, or the earlier ones if people excluded something."""
    earlier: dict[str, Any] = last_integration.get("stood") or {}
    if earlier.get("onto") == data["onto"] and (data["wishes"] or data["only"]):
        return earlier
    keys = {change.id: change.key for change in changes}
    rows = [
        {**{name: row[name] for name in ("key", "why", "reason", "proof")}, "others": [keys[name] for name in row["others"]]}
        for row in data["left_out"]
        if row["why"] in _REUSABLE_KINDS and all(name in keys for name in row["others"])
    ]  # fmt: skip
    return {"onto": data["onto"], "keys": sorted(keys.values()), "rows": rows}
