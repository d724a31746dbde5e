"""Merges the outputs of several runs of one command into the most specific lines that match all of them."""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from mngr.e2e.expectations.line_matching import PATTERNS, escape_quantity, escape_text, split_output

# Values that may change later although they were equal in all runs, because the runs happened at the same time.
_VOLATILE_PATTERNS = (
    ("UUID", re.compile(PATTERNS["UUID"])),
    ("TIME", re.compile(PATTERNS["TIME"])),
    ("DATE", re.compile(PATTERNS["DATE"])),
    ("HASH", re.compile(r"(?<![\w.-])(?:(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}|\d{7})(?![\w.-])")),
    ("DURATION", re.compile(r"(?<![\w.])\d+(?:\.\d+)?\s?(?:ms|µs|us|s)(?!\w)")),
)
WILDCARD = "\x00...\x00"


def build_pattern(outputs: list[str], names: list[dict[str, str]]) -> list[str]:
    """Return lines for `to_match_lines` that match all outputs.

    `names` gives for each run the texts that vary between runs, by their name in the pattern.
    """
    runs = list(map(_mask_names, outputs, names))
    merged = runs[0]
    for run in runs[1:]:
        merged = _merge_lines(merged, run)
    lines = [_escape_line(line) for line in merged]
    return [line for index, line in enumerate(lines) if line != "..." or index == 0 or lines[index - 1] != "..."]


def is_specific(expected: list[str]) -> bool:
    """True when the lines contain more than wildcards."""
    return any(re.sub(r"\.\.\.|\[[A-Z]+\]", "", row).strip() for row in expected)


def _mask_names(text: str, names: dict[str, str]) -> list[str]:
    for name, value in sorted(names.items(), key=lambda item: -len(item[1])):
        text = text.replace(value, f"\x00{name}\x00")
    for name, pattern in _VOLATILE_PATTERNS:
        text = pattern.sub(f"\x00{name}\x00", text)
    return split_output(text)


def _merge_lines(left: list[str], right: list[str]) -> list[str]:
    """Return lines that match both: unequal lines are joined in pairs, unpaired lines become a wildcard."""
    merged: list[str] = []
    for tag, a1, a2, b1, b2 in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if tag == "equal":
            merged += left[a1:a2]
        elif a2 - a1 == b2 - b1:
            merged += map(_join_lines, left[a1:a2], right[b1:b2])
        else:
            merged.append(WILDCARD)
    return merged


def _join_lines(left_line: str, right_line: str) -> str:
    """Return a line that matches both: joined word by word if they have equally many words, else by their ends."""
    if left_line == right_line:
        return left_line
    if WILDCARD in (left_line, right_line):
        return WILDCARD
    left, right = re.split(r"(\s+)", left_line), re.split(r"(\s+)", right_line)
    if len(left) != len(right):
        return _keep_common_ends(left_line, right_line)
    if any(left[index] != right[index] for index in range(1, len(left), 2)):
        return _keep_common_ends(left_line, right_line)  # columns with different widths
    return "".join(map(_join_words, left, right))


def _join_words(left: str, right: str) -> str:
    """Return a pattern that matches both words.

    A masked value may look plain in one of the runs, such as a hash without a digit.
    """
    for name, word in ((left, right), (right, left)):
        if name[1:-1] in PATTERNS and name == f"\x00{name[1:-1]}\x00" and re.fullmatch(PATTERNS[name[1:-1]], word):
            return name
    return left if left == right else _keep_common_ends(left, right)


def _keep_common_ends(left: str, right: str) -> str:
    """Return the common start and the common end of two texts, with a wildcard between them."""
    start = _common_prefix(left, right)
    start = start[: start.rfind("\x00")] if start.count("\x00") % 2 else start
    left_rest, right_rest = left[len(start) :], right[len(start) :]
    end = _common_prefix(left_rest[::-1], right_rest[::-1])[::-1]
    end = end[end.find("\x00") + 1 :] if end.count("\x00") % 2 else end
    return f"{start}{WILDCARD}{end}"


def _common_prefix(left: str, right: str) -> str:
    """Return the text with which both begin."""
    limit = min(len(left), len(right))
    return left[: next((index for index in range(limit) if left[index] != right[index]), limit)]


def _escape_line(row: str) -> str:
    """Return the line as an expectation: plain text is escaped, masked names become [NAME] or `...`."""
    parts: list[str] = []
    for index, part in enumerate(re.split("\x00([A-Z]+|\\.\\.\\.)\x00", row)):
        if index % 2:
            parts.append("..." if part == "..." else f"[{part}]")
        else:
            parts.append(escape_text(part))
    return escape_quantity(re.sub(r"(?:\.\.\.){2,}", "...", "".join(parts)))
