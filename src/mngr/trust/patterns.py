"""How much a pattern says: what of it is fixed, whether anything would do, and what in a text may well vary."""

from __future__ import annotations

import re
from re import _parser as parser  # type: ignore[attr-defined]

from mngr.e2e import lines
from mngr.model import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PROBES = ("zqj", "7", "# \n", "Word text")
_VARIES = re.compile("|".join(f"(?:{lines.PATTERNS[name]})" for name in ("TIME", "DATE", "UUID", "DURATION")))
_HASH = re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b|(?<![\w.])/(?:[\w.-]+/)+[\w.-]*")
_PART = re.compile(r"\\(\[|<|\.\.\.|\\|\()|<[a-z_][a-z0-9_]*>|\[[A-Z][A-Z0-9_]*\]|\.\.\.")


class Pattern(Record):
    """What there is to a pattern."""

    weight: float  # characters it fixes, those it only narrows counted in part
    fixed: str  # the characters it fixes, in order
    anchors: int
    anything: bool  # it fits whatever there is
    wild: int = 0  # places where anything may stand


def of_regex(pattern: str) -> Pattern:
    """A regular expression, by its parts. One that is none says nothing."""
    try:
        parsed = parser.parse(pattern)
    except (re.error, RecursionError, OverflowError):
        return Pattern(weight=0.0, fixed="", anchors=0, anything=True)
    weight, fixed, anchors, wild = _sum(list(parsed))
    try:
        compiled = re.compile(pattern)
        anything = bool(compiled.search("")) or all(compiled.search(probe) for probe in _PROBES)
    except (re.error, RecursionError):
        anything = True
    if re.fullmatch(r"\^?(\\s\*|\s)*\$?", pattern) and pattern not in {"", "^", "$"}:
        anything = False  # it says that there is nothing
    return Pattern(weight=weight, fixed=fixed, anchors=anchors, anything=anything, wild=wild)


def _sum(parts: list[Any]) -> tuple[float, str, int, int]:
    weight, fixed, anchors, wild = 0.0, "", 0, 0
    for op, given in parts:
        name = str(op)
        if name == "LITERAL":
            if not chr(given).isspace():
                weight += 1
            fixed += chr(given)
        elif name == "IN":
            weight += _of_class(given)
            wild += 1
        elif name == "AT":
            anchors += 1
        elif name in {"ANY", "NOT_LITERAL", "CATEGORY"}:
            wild += 1
        elif name in {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}:
            least, most, inner = given
            inside = _sum(list(inner))
            wild += 1 + inside[3] if most != least else inside[3]
            if least:
                weight += inside[0] * min(least, 50)
                fixed += inside[1] * min(least, 50)
                anchors += inside[2]
        elif name in {"SUBPATTERN", "ASSERT", "ATOMIC_GROUP"}:
            inside = _sum(list(given if name == "ATOMIC_GROUP" else given[-1]))
            weight, fixed = weight + inside[0], fixed + inside[1]
            anchors, wild = anchors + inside[2], wild + inside[3]
        elif name == "BRANCH":
            ways = [_sum(list(way)) for way in given[1]]
            least_way = min(ways, key=lambda way: way[0])
            weight, fixed = weight + least_way[0] * 0.9, fixed + least_way[1]
            anchors += min(way[2] for way in ways)
            wild += len(ways) - 1
    return weight, fixed, anchors, wild


def _of_class(given: list[Any]) -> float:
    names = {str(op) for op, _ in given}
    if "NEGATE" in names:
        return 0.1
    if "CATEGORY" in names:
        kinds = {str(found) for op, found in given if str(op) == "CATEGORY"}
        return 0.5 if kinds == {"CATEGORY_DIGIT"} and names == {"CATEGORY"} else 0.1
    if "RANGE" in names:
        return 0.5 if len(given) == 1 else 0.3
    return 0.8 if len(given) <= 3 else 0.5


def of_lines(text: str) -> Pattern:
    """An expectation of lines, as mngr.e2e.lines has them."""
    fixed, wild, rows = "", 0, lines.split(text)
    for row in rows:
        line = lines.parse(row)
        wild += len(_PART.findall(row)) + (line.least != line.most and line.text != "...")
        if line.least:
            fixed += _PART.sub(lambda found: found[1] or "", line.text) + "\n"
    weight = sum(1 for char in fixed if not char.isspace())
    return Pattern(weight=float(weight), fixed=fixed, anchors=2, anything=bool(rows) and not weight, wild=wild)


def of_text(text: str) -> Pattern:
    """A text that stands for itself."""
    weight = float(sum(1 for char in text if not char.isspace()))
    return Pattern(weight=weight, fixed=text, anchors=0, anything=not text)


def varying(text: str) -> float:
    """How many characters of a text are times, hashes, paths: what nobody can promise."""
    found = [*_VARIES.findall(text), *_HASH.findall(text)]
    return float(sum(len(item) for item in found))
