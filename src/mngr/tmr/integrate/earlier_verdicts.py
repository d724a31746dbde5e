"""What was put aside once and stays so: the verdicts of an integration that nobody wished anything of, for those that come after it.

They are of that one alone, so that the same wishes give the same branch whatever was wished in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mngr.tmr.changes.changes import Change
from mngr.tmr.integrate.trial import BranchTrial, Exclusion, TrialResult

_REUSABLE_KINDS = ("breaks", "redder")


def list_earlier_exclusions(
    known: dict[str, Any], onto: str, chosen: Sequence[Change]
) -> tuple[list[Exclusion], list[Exclusion]]:
    """What need not be tried again: those that it breaks with are there, and nothing new is at its place; and what must be looked at."""
    if known.get("onto") != onto:
        return [], []
    at = {change.key: change for change in chosen}
    news = {path for change in chosen if change.key not in known["keys"] for path in change.paths}
    sure: list[Exclusion] = []
    doubtful: list[Exclusion] = []
    for row in known["rows"]:
        change = at.get(row["key"])
        if change is None:
            continue
        others = [at[key].id for key in row["others"] if key in at]
        one = Exclusion(change=change.id, why=row["why"], reason=row["reason"], others=others, proof=row["proof"])
        is_sure = news.isdisjoint(change.paths) and len(others) == len(row["others"])
        (sure if is_sure else doubtful).append(one)
    gone = {one.change for one in sure}
    return [one for one in sure if gone.isdisjoint(one.others)], doubtful


def list_retriable_changes(
    trial: BranchTrial,
    settled: TrialResult,
    asides: Sequence[Exclusion],
    unsure: set[str],
    changes: Mapping[str, Change],
) -> list[Change]:
    """Of those that were not tried again what may go: those in its way are not there, and its proof does not hold any more."""
    there = {change.id for change in settled.chosen}
    groups: dict[tuple[str, str], list[Exclusion]] = {}  # put aside together
    for one in asides:
        if one.proof is not None:
            groups.setdefault((str(one.proof["test"]), str(one.proof["commit"])), []).append(one)
    found: list[Change] = []
    for (test, _), some in groups.items():
        if all(one.change not in unsure and there.issuperset(one.others) for one in some):
            continue
        group = [changes[one.change] for one in some]
        if not trial.list_failing_with([*settled.chosen, *group], {test}) or trial.list_failing_with(
            settled.chosen, {test}
        ):
            found += group
    return found


def collect_verdicts(last: dict[str, Any], data: dict[str, Any], changes: Sequence[Change]) -> dict[str, Any]:
    """What later integrations may go by: this one, if nobody wished anything of it; else what there was."""
    known: dict[str, Any] = last.get("stood") or {}
    if known.get("onto") == data["onto"] and (data["wishes"] or data["only"]):
        return known
    keys = {change.id: change.key for change in changes}
    rows = [
        {**{name: row[name] for name in ("key", "why", "reason", "proof")}, "others": [keys[name] for name in row["others"]]}
        for row in data["left_out"]
        if row["why"] in _REUSABLE_KINDS and all(name in keys for name in row["others"])
    ]  # fmt: skip
    return {"onto": data["onto"], "keys": sorted(keys.values()), "rows": rows}
