"""A text that was compared whole, and of which all is still compared but what the contract says is not promised."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mngr.tmr.verify.legacy import disclaimed, values
from mngr.tmr.verify.legacy.checks import NEGATIVE, Check

_CUTS = frozenset(("partition", "rpartition", "split", "rsplit"))
_FORM = re.compile(r"\b(?:format|form|value|zone|precision|length|content)\b", re.I)
# What may be left open, and what it looks like.
_OPEN = (
    (r"\b(?:time ?stamps?|times?|dates?|stamps?|clock)\b", r"(?=.*\d[:/.-]\d)[\d\s:./TZ+-]+(?:UTC|GMT|[AP]M)?"),
    (r"\b(?:durations?|elapsed|timings?|seconds)\b", r"\d+(?:\.\d+)?\s*(?:ms|s|sec|secs|seconds|min)?"),
    (r"\b(?:ids?|identifiers?|uuids?|pids?|hash(?:es)?|tokens?|addresses)\b", r"(?=.*\d)(?:0x)?[\da-fA-F-]+"),
)  # fmt: skip
Span = tuple[int, int]


def unpromised(doc: str, old: Check, checks: list[Check]) -> bool:
    """Whether the checks compare all of the text but parts that the contract leaves open."""
    whole = old.value
    if old.kind != "eq" or old.views or not isinstance(whole, str):
        return False
    told = [(check, span) for check in checks for span in _spans(whole, old.subject, check)]
    covered = [span for _, span in told]
    left = [text.strip(" \t[](){}") for text in _gaps(whole, covered)]
    more = any(_looks(check, old.subject) and all(check is not one for one, _ in told) for check in checks)
    return bool(covered) and all(_is_open(doc, text, more) for text in left if text)


def _spans(whole: str, subject: str, check: Check) -> Iterator[Span]:
    """Where in a text stands what a check compares, with what it is cut by."""
    said = check.value
    if check.empty or check.views or not isinstance(said, str):
        return
    if check.kind == "starts" and check.subject == subject and getattr(whole, check.option)(said):
        ends = check.option == "endswith"
        yield (len(whole) - len(said), len(whole)) if ends else (0, len(said))
    match check.kind, check.node:
        case "eq", ast.Subscript(
            value=ast.Call(func=ast.Attribute(value=base, attr=cut), args=args, keywords=[]), slice=index
        ) if cut in _CUTS and values.text(base) == subject:
            given, at = [values.value(arg) for arg in args], values.value(index)
            if given and isinstance(given[0], str) and isinstance(at, int):
                yield from _cut(whole, cut, given, at, said)


def _cut(whole: str, cut: str, given: list[object], at: int, said: str) -> Iterator[Span]:
    """One of the pieces of a text, where it is what a check says, and the mark beside it."""
    try:
        pieces = list(getattr(whole, cut)(*given))
        piece = pieces[at]
    except (TypeError, ValueError, IndexError):
        return
    if piece != said or not said:
        return
    mark, at = str(given[0]), at % len(pieces)
    gap = 0 if cut.endswith("partition") else len(mark)
    start = sum(len(one) + gap for one in pieces[:at])
    yield max(0, start - len(mark)) if at else 0, start + len(piece)


def _gaps(whole: str, covered: list[Span]) -> Iterator[str]:
    """What of a text is in none of the parts."""
    at = 0
    for start, end in sorted(covered):
        yield whole[at:start] if start > at else ""
        at = max(at, end)
    yield whole[at:]


def _looks(check: Check, subject: str) -> bool:
    """Whether a check says at least that there is something."""
    return subject in check.subject and not check.empty and check.kind not in {*NEGATIVE, "empty"}


def _is_open(doc: str, text: str, more: bool) -> bool:
    """Whether the contract does not promise what a text looks like; where it only leaves its form open, it must be there."""
    for topic, shape in _OPEN:
        free = disclaimed.clauses(doc, re.compile(topic, re.I)) if re.fullmatch(shape, text) else []
        if any(more or not _FORM.search(clause) for clause in free):
            return True
    return False
