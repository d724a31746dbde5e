"""How much a pattern says: what of it is fixed, whether anything would do, and what in a text may well vary."""

from __future__ import annotations

import re
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from mngr.base.model import Struct
from mngr.e2e import line_matching

_TRIES = 20_000_000
_PROBES = ("zqj", "7", "# \n", "Word text")
_CLOCK = r"(?<![\d:])[0-2]\d:[0-5]\d(?![\d:])"
_KINDS = [line_matching.PATTERNS[name] for name in ("TIME", "DATE", "UUID", "DURATION")]
_VARIES = re.compile("|".join(f"(?:{kind})" for kind in (*_KINDS, _CLOCK)))
_NESTED = re.compile(r"[+*}]\??[^()]*\)[+*{]")
_HASH = re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b|(?<![\w.])/(?:[\w.-]+/)+[\w.-]*")
_ID = re.compile(r"(?<![\w.])\d{4,}(?![\w.])|\b(?=[0-9a-z]*[a-z])[0-9a-f]*\d[0-9a-f]*(?<=....)\b", re.I)
_PART = re.compile(r"\\(\[|<|\.\.\.|\\|\()|<[a-z_][a-z0-9_]*>|\[[A-Z][A-Z0-9_]*\]|\.\.\.")


class Pattern(Struct):
    """What there is to a pattern."""

    weight: float  # characters it fixes, those it only narrows counted in part
    fixed: str  # the characters it fixes, in order
    anchors: int
    anything: bool  # it fits whatever there is
    wild: int = 0  # places that are not fixed
    broad: int = 0  # of these, where anything may stand


def of_regex(pattern: str) -> Pattern:
    """A regular expression, by its parts. One that is none says nothing."""
    try:
        parsed = parser.parse(pattern)
    except (re.error, RecursionError, OverflowError):
        return Pattern(weight=0.0, fixed="", anchors=0, anything=True)
    found = _Sum(list(parsed))
    try:
        compiled = re.compile(pattern)
        anything = bool(compiled.search("")) or all(compiled.search(probe) for probe in _PROBES)
    except (re.error, RecursionError):
        anything = True
    if re.fullmatch(r"\^?(\\s\*|\s)*\$?", pattern) and pattern not in {"", "^", "$"}:
        anything = False  # it says that there is nothing
    return Pattern(
        weight=found.weight,
        fixed=found.fixed,
        anchors=found.anchors,
        anything=anything,
        wild=found.wild,
        broad=found.broad,
    )


class _Sum:
    """The parts of a pattern, added up."""

    def __init__(self, parts: list[Any]) -> None:
        self.weight, self.fixed = 0.0, ""
        self.anchors = self.wild = self.broad = 0
        for op, given in parts:
            self._add(str(op), given)

    def _add(self, name: str, given: Any) -> None:
        if name == "LITERAL":
            self.weight += not chr(given).isspace()
            self.fixed += chr(given)
        elif name == "IN":
            narrow = _of_class(given)
            self.weight += narrow
            self.wild += 1
            self.broad += narrow < 0.3
        elif name == "AT":
            self.anchors += 1
        elif name in {"ANY", "NOT_LITERAL", "CATEGORY"}:
            self.wild += 1
            self.broad += 1
        elif name in {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}:
            least, most, inner = given
            self.wild += most != least
            self._within(_Sum(list(inner)), min(least, 50))
        elif name in {"SUBPATTERN", "ASSERT"}:
            self._within(_Sum(list(given[-1])), 1)
        elif name == "ATOMIC_GROUP":
            self._within(_Sum(list(given)), 1)
        elif name == "BRANCH":
            ways = [_Sum(list(way)) for way in given[1]]
            self._within(min(ways, key=lambda way: way.weight), 1)
            self.weight -= 0.1
            self.wild += len(ways) - 1

    def _within(self, inner: _Sum, times: int) -> None:
        self.weight += inner.weight * times
        self.fixed += inner.fixed * times
        self.anchors += inner.anchors * min(times, 1)
        self.wild += inner.wild
        self.broad += inner.broad


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
    """An expectation of lines, as mngr.e2e.line_matching has them."""
    fixed, wild, broad, rows = "", 0, 0, line_matching.split_expected(text)
    for row in rows:
        line = line_matching.parse_line(row)
        wild += len(_PART.findall(row)) + (line.min_count != line.max_count and line.text != "...")
        broad += len(re.findall(r"(?<!\\)\.\.\.", row)) + (line.min_count == 0 and line.text != "...")
        if line.min_count:
            fixed += _PART.sub(lambda found: found[1] or "", line.text) + "\n"
    weight = sum(1 for char in fixed if not char.isspace())
    hollow = bool(rows) and not weight
    return Pattern(weight=float(weight), fixed=fixed, anchors=2, anything=hollow, wild=wild, broad=broad)


def of_text(text: str) -> Pattern:
    """A text that stands for itself."""
    weight = float(sum(1 for char in text if not char.isspace()))
    return Pattern(weight=weight, fixed=text, anchors=0, anything=not text)


def varying(text: str, given: str) -> float:
    """How many characters of a text are times, hashes, paths, ids: what nobody can promise, unless it was given."""
    spans = {found.span() for pattern in (_VARIES, _HASH, _ID) for found in pattern.finditer(text)}
    covered = {at for start, end in spans if text[start:end] not in given for at in range(start, end)}
    return float(len(covered))


def takes_more(pattern: str, text: str, given: str) -> bool:
    """Whether a pattern finds something in a text that does not vary by itself, as times and hashes do."""
    repeats, may = len(re.findall(r"[*+]|\{\d*,\d*\}", pattern)), len(re.findall(r"[?|]", pattern))
    if _NESTED.search(pattern) or (len(text) + 1) ** (repeats + 1) * 2 ** min(may, 60) > _TRIES:
        return True  # it might take for ever to try
    fixed = sum(not char.isspace() for char in of_regex(pattern).fixed)
    for found in re.finditer(pattern, text):
        size = sum(not char.isspace() for char in found[0])
        if size - fixed > varying(found[0], given):
            return True
    return False


def is_narrow(pattern: object) -> bool:
    """Whether a regular expression fits only things of one kind, as a time does."""
    if not isinstance(pattern, str):
        return False
    found = of_regex(pattern)
    return not found.anything and not found.broad and found.weight >= 2
