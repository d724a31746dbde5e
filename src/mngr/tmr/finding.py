"""A finding: one thing about a change that a person should know, with its place."""

from __future__ import annotations

from mngr.base.model import Struct

LEVELS = ("refuse", "note", "justified")


class Finding(Struct):
    """What was found, where, and how much it matters."""

    rule: str  # its short, stable name
    level: str  # refuse: the claim does not count | note: a person should look | justified: harmless, and said
    path: str
    line: int = 0  # in the new file, or in the old one where it is only there; 0: the file as a whole
    what: str  # one sentence
    old: str = ""
    new: str = ""
