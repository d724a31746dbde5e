"""A finding: one thing about a change that a person should know, with its location."""

from __future__ import annotations

from mngr.base.model import Struct
from mngr.base.untrusted_json import as_objects, get_int, get_text

LEVELS = ("refuse", "note")


class Finding(Struct):
    """One result of a check: the problem, its place and its level."""

    rule: str  # the rule's short, stable name
    level: str  # refuse: the claim does not count | note: a person should look
    path: str
    line: int = 0  # line in the new file, or in the old file if only that has it; 0: the whole file
    what: str  # one sentence
    old: str = ""
    new: str = ""


def read_findings(value: object) -> list[Finding]:
    """Return the findings in a list whose shape nobody guarantees."""
    return [
        Finding(
            rule=get_text(row, "rule"),
            level=get_text(row, "level"),
            path=get_text(row, "path"),
            line=get_int(row, "line"),
            what=get_text(row, "what"),
            old=get_text(row, "old"),
            new=get_text(row, "new"),
        )
        for row in as_objects(value)
    ]
