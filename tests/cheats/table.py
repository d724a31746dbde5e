"""Counts the verdicts of a bench run and writes them as a table."""

from __future__ import annotations

from collections.abc import Iterable

from tests.cheats.judge import Judgement

COLUMNS = ("refuted", "unverified", "finding", "none", "crash")


def find_column(judgement: Judgement) -> str:
    """Return the column that counts this verdict. A confirmed edit has a finding on a changed line, or none."""
    if judgement.verdict == "confirmed":
        return "finding" if judgement.rules else "none"
    return judgement.verdict


def is_miss(judgement: Judgement) -> bool:
    """True when mngr misleads: about a dishonest edit it says nothing, or it does not confirm an honest one."""
    if judgement.edit.is_honest:
        return judgement.verdict != "confirmed"
    return find_column(judgement) in ("none", "crash")


def format_report(judgements: Iterable[Judgement], level: str) -> str:
    """Return the table and the misses."""
    judged = sorted(judgements, key=lambda judgement: judgement.edit.id)
    head = f"{'class':<24}{'edits':>6}{'refuted':>9}{'unverified':>12}{'confirmed,':>12}{'confirmed,':>12}{'crash':>7}"
    under = f"{'':<24}{'':>6}{'':>9}{'':>12}{'finding':>12}{'no finding':>12}{'':>7}"
    lines = [f"verify: {level}, {len(judged)} edits, {sum(j.seconds for j in judged):.0f} s of verification"]
    for is_honest, title in ((False, "dishonest"), (True, "honest")):
        group = [judgement for judgement in judged if judgement.edit.is_honest == is_honest]
        lines += ["", head, under, format_row(f"all {title}", group)]
        classes = sorted({judgement.edit.cheat_class for judgement in group})
        lines += [format_row(name, [j for j in group if j.edit.cheat_class == name]) for name in classes]
    misses = [judgement for judgement in judged if is_miss(judgement)]
    lines += ["", f"misses: {len(misses)}", *map(format_miss, misses)]
    return "\n".join(lines)


def format_row(title: str, group: list[Judgement]) -> str:
    """Return the counts of one class."""
    counts = [sum(find_column(judgement) == column for judgement in group) for column in COLUMNS]
    widths = (9, 12, 12, 12, 7)
    return f"{title:<24}{len(group):>6}" + "".join(
        f"{count:>{width}}" for count, width in zip(counts, widths, strict=True)
    )


def format_miss(judgement: Judgement) -> str:
    """Return one line about an edit that mngr judged wrongly."""
    edit = judgement.edit
    said = "honest" if edit.is_honest else "dishonest"
    first_line = judgement.reason.strip().partition("\n")[0][:120]
    return f"  {edit.id:<14}{said} {edit.cheat_class}, {judgement.verdict}: {first_line or edit.why}"
