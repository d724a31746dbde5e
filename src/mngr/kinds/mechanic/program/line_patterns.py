"""From what several runs of one command printed to lines that fit all of them, and say as much as can be said."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from mngr.e2e.line_matching import PATTERNS, escape_quantity, escape_text, split_output

# What must not be believed although it was the same each time: runs of one moment share these.
_VOLATILE_PATTERNS = (
    ("UUID", re.compile(PATTERNS["UUID"])),
    ("TIME", re.compile(PATTERNS["TIME"])),
    ("DATE", re.compile(PATTERNS["DATE"])),
    ("HASH", re.compile(r"(?<![\w.-])(?:(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}|\d{7})(?![\w.-])")),
    ("DURATION", re.compile(r"(?<![\w.])\d+(?:\.\d+)?\s?(?:ms|µs|us|s)(?!\w)")),
)
WILDCARD = "\x00...\x00"


def build_pattern(outputs: list[str], names: list[dict[str, str]]) -> list[str]:
    """Lines for `to_match_lines`; `names` has what varies from run to run: [NAME] to the text it was in that run."""
    runs = list(map(_mask_names, outputs, names))
    merged = runs[0]
    for other in runs[1:]:
        merged = _merge_lines(merged, other)
    shown = [_escape_line(row) for row in merged]
    return [row for at, row in enumerate(shown) if row != "..." or at == 0 or shown[at - 1] != "..."]


def is_specific(expected: list[str]) -> bool:
    """Whether there is more in it than that anything may come."""
    return any(re.sub(r"\.\.\.|\[[A-Z]+\]", "", row).strip() for row in expected)


def _mask_names(text: str, names: dict[str, str]) -> list[str]:
    for name, value in sorted(names.items(), key=lambda item: -len(item[1])):
        text = text.replace(value, f"\x00{name}\x00")
    for name, shape in _VOLATILE_PATTERNS:
        text = shape.sub(f"\x00{name}\x00", text)
    return split_output(text)


def _merge_lines(left: list[str], right: list[str]) -> list[str]:
    """What both say; where they differ, lines of a pair are brought together, and what has no partner becomes any lines."""
    merged: list[str] = []
    for tag, a1, a2, b1, b2 in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if tag == "equal":
            merged += left[a1:a2]
        elif a2 - a1 == b2 - b1:
            merged += map(_join_lines, left[a1:a2], right[b1:b2])
        else:
            merged.append(WILDCARD)
    return merged


def _join_lines(one: str, other: str) -> str:
    """A line that fits two: word by word where they have as many, else their ends."""
    if one == other:
        return one
    if WILDCARD in (one, other):
        return WILDCARD
    left, right = re.split(r"(\s+)", one), re.split(r"(\s+)", other)
    if len(left) != len(right):
        return _keep_common_ends(one, other)
    if any(left[at] != right[at] for at in range(1, len(left), 2)):
        return _keep_common_ends(one, other)  # columns of another width
    return "".join(map(_join_words, left, right))


def _join_words(one: str, other: str) -> str:
    """What fits both; what varies by its name may look plain in one run, as a hash without a digit does."""
    for name, word in ((one, other), (other, one)):
        if name[1:-1] in PATTERNS and name == f"\x00{name[1:-1]}\x00" and re.fullmatch(PATTERNS[name[1:-1]], word):
            return name
    return one if one == other else _keep_common_ends(one, other)


def _keep_common_ends(one: str, other: str) -> str:
    """What two texts begin and end with, and anything between."""
    start = _common_prefix(one, other)
    start = start[: start.rfind("\x00")] if start.count("\x00") % 2 else start
    rest_a, rest_b = one[len(start) :], other[len(start) :]
    end = _common_prefix(rest_a[::-1], rest_b[::-1])[::-1]
    end = end[end.find("\x00") + 1 :] if end.count("\x00") % 2 else end
    return f"{start}{WILDCARD}{end}"


def _common_prefix(one: str, other: str) -> str:
    """What both begin with."""
    most = min(len(one), len(other))
    return one[: next((at for at in range(most) if one[at] != other[at]), most)]


def _escape_line(row: str) -> str:
    """The line as an expectation: what stands for itself is told from what does not."""
    parts: list[str] = []
    for at, part in enumerate(re.split("\x00([A-Z]+|\\.\\.\\.)\x00", row)):
        if at % 2:
            parts.append("..." if part == "..." else f"[{part}]")
        else:
            parts.append(escape_text(part))
    return escape_quantity(re.sub(r"(?:\.\.\.){2,}", "...", "".join(parts)))
