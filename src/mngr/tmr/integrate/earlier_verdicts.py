"""Reuses the exclusions of the last integration without exclusion requests.

Only that integration counts. So the same requests give the same branch, whatever was requested in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mngr.tmr.changes.collect_changes import Change
from mngr.tmr.changes.integration_record import EarlierVerdict, EarlierVerdicts, Exclusion, Integration
from mngr.tmr.integrate.exclude_breaking import BranchTrial, TrialResult

_REUSABLE_KINDS = ("breaks", "more_failures")


def list_earlier_exclusions(
    earlier: EarlierVerdicts | None, onto: str, chosen: Sequence[Change]
) -> tuple[list[Exclusion], list[Exclusion]]:
    """Return the exclusions that still hold, and the doubtful ones that need another test run.

    An exclusion holds if the changes that it conflicts with are chosen and no new change touches its files.
    """
    if earlier is None or earlier.onto != onto:
        return [], []
    change_by_key = {change.key: change for change in chosen}
    new_changes = [change for change in chosen if change.key not in earlier.keys]
    new_paths = {path for change in new_changes for path in change.paths}
    sure: list[Exclusion] = []
    doubtful: list[Exclusion] = []
    for row in earlier.rows:
        change = change_by_key.get(row.key)
        if change is None:
            continue
        others = [change_by_key[key].id for key in row.others if key in change_by_key]
        exclusion = Exclusion(change=change.id, why=row.why, reason=row.reason, others=others, proof=row.proof)
        is_sure = new_paths.isdisjoint(change.paths) and len(others) == len(row.others)
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
            groups.setdefault((exclusion.proof.test, exclusion.proof.commit), []).append(exclusion)
    retriable: list[Change] = []
    for (test, _), members in groups.items():
        if all(exclusion.change not in unsure and included.issuperset(exclusion.others) for exclusion in members):
            continue
        group = [changes[exclusion.change] for exclusion in members]
        is_failing_with_group = trial.list_failing_with([*result.chosen, *group], {test})
        if not is_failing_with_group or trial.list_failing_with(result.chosen, {test}):
            retriable += group
    return retriable


def collect_verdicts(
    earlier: EarlierVerdicts | None, integration: Integration, changes: Sequence[Change]
) -> EarlierVerdicts:
    """Return the verdicts for later integrations: this one's, or the earlier ones if people excluded something."""
    has_requests = bool(integration.requests or integration.only)
    if has_requests and earlier is not None and earlier.onto == integration.onto:
        return earlier
    keys = {change.id: change.key for change in changes}
    rows = []
    for row in integration.excluded:
        if row.why in _REUSABLE_KINDS and keys.keys() >= set(row.others):
            others = [keys[name] for name in row.others]
            rows.append(EarlierVerdict(key=row.key, why=row.why, reason=row.reason, proof=row.proof, others=others))
    return EarlierVerdicts(onto=integration.onto, keys=sorted(keys.values()), rows=rows)
