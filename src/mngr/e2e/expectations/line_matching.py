"""Matches output against expected lines.

...              alone: any number of lines; in a line: any text
text (?)         an optional line; (*) any number of such lines; (+) at least one; (3) three; (2,4) two to four
<name>           a word, captured under this name; if the name is already captured, its value
[TIME]           text that varies: a name from PATTERNS or from add_redaction
\\                before any of these, also before the ( of a quantity: match it literally
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

PATTERNS = {
    "TIME": r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?|\d\d:\d\d:\d\d(?:\.\d+)?",
    "DATE": r"\d{4}-\d\d-\d\d",
    "DURATION": r"\d+(?:\.\d+)?\s?(?:ms|µs|us|s|m|h|d)(?:\s?\d+(?:\.\d+)?\s?(?:ms|s|m|h))*",
    "UUID": r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}",
    "HASH": r"[0-9a-f]{7,64}",
    "ID": r"[A-Za-z0-9_-]*\d[A-Za-z0-9_-]*",
    "NUMBER": r"-?\d+(?:\.\d+)?",
    "PATH": r"(?:~|\.{0,2})/\S*",
}
_QUANTITY_SUFFIX = re.compile(r" \((\?|\*|\+|\d+|\d+,\d*)\)$")
_LINE_PART = re.compile(r"\\(\[|<|\.\.\.|\\|\()|<([a-z_][a-z0-9_]*)>|\[([A-Z][A-Z0-9_]*)\]|(\.\.\.)")
_SPECIAL_TEXT = re.compile(r"\\(?=[\[<.\\(])|<(?=[a-z_][a-z0-9_]*>)|\.\.\.|\[(?=[A-Z][A-Z0-9_]*\])")
_ESCAPABLE_QUANTITY = re.compile(r" (?=\((?:[?*+]|\d+|\d+,\d*)\)$)")
_MAX_REPEATS = 1_000_000  # lines: more than any output that mngr keeps


@dataclass(frozen=True)
class ExpectedLine:
    """One line of an expectation: its pattern, and how often it may occur."""

    text: str
    min_count: int = 1
    max_count: int = 1


@dataclass(frozen=True)
class LineMatch:
    """The result of a comparison: the captured names when all lines match, or the first lines that do not."""

    is_match: bool
    names: dict[str, str] = field(default_factory=dict)
    expected_at: int = 0  # the index of the first line that does not match
    actual_at: int = 0


def split_expected(text: str) -> list[str]:
    """Return the lines of an expectation without its indentation and without empty lines at both ends."""
    import textwrap

    rows = textwrap.dedent(text.replace("\r\n", "\n")).split("\n")
    while rows and not rows[0].strip():
        rows.pop(0)
    while rows and not rows[-1].strip():
        rows.pop()
    return [row.rstrip() for row in rows]


def split_output(text: str) -> list[str]:
    """Return the lines of a program's output, without the indentation that all of them share.

    Expectations are dedented, too, so they cannot express a common indentation.
    """
    import textwrap

    dedented = textwrap.dedent(text.replace("\r\n", "\n")).removesuffix("\n")
    return [row.rstrip() for row in dedented.split("\n")] if dedented else []


def escape_text(text: str) -> str:
    """Escape a part of a line, so that it matches only itself."""
    return _SPECIAL_TEXT.sub(lambda match: "\\" + match[0], text)


def escape_quantity(row: str) -> str:
    """Escape the end of a line that looks like a quantity."""
    return _ESCAPABLE_QUANTITY.sub(r" \\", row)


def parse_line(row: str) -> ExpectedLine:
    """Split an expected line into its text and how often it may occur."""
    if row == "...":
        return ExpectedLine("...", 0, _MAX_REPEATS)
    match = _QUANTITY_SUFFIX.search(row)
    if match is None:
        return ExpectedLine(row)
    quantity, text = match[1], row[: match.start()]
    if quantity in "?*+":
        least, most = {"?": (0, 1), "*": (0, _MAX_REPEATS), "+": (1, _MAX_REPEATS)}[quantity]
    else:
        low, comma, high = quantity.partition(",")
        least = int(low)
        most = least
        if comma:
            most = int(high) if high else _MAX_REPEATS
    return ExpectedLine(text, least, most)


def compile_line(text: str, names: Mapping[str, str], patterns: Mapping[str, str]) -> re.Pattern[str]:
    """Return the regular expression for one expected line."""
    regex, position, captured = "", 0, set()
    for part in _LINE_PART.finditer(text):
        regex += re.escape(text[position : part.start()])
        position = part.end()
        escaped, name, pattern, _ = part.groups()
        if escaped:
            regex += re.escape(escaped)
        elif name and name in names:
            regex += re.escape(names[name])
        elif name:
            regex += f"(?P={name})" if name in captured else rf"(?P<{name}>\S+?)"
            captured.add(name)
        elif pattern and pattern in patterns:
            regex += f"(?:{patterns[pattern]})"
        elif pattern:
            regex += re.escape(part[0])
        else:
            regex += ".*?"
    return re.compile(regex + re.escape(text[position:]), re.DOTALL)


def match_lines(
    expected: list[str], actual: list[str], names: Mapping[str, str], patterns: Mapping[str, str]
) -> LineMatch:
    """Compare the lines. A line with a quantity takes as few actual lines as possible.

    Each pair of an expected and an actual line is tried at most once for each number of repeats. A line that captures a
    name is therefore taken where it first matches.
    """
    expected_lines = [parse_line(row) for row in expected]
    furthest = (0, 0)
    visited: set[tuple[int, int, int]] = set()

    # Each entry is (expected line, how often it matched so far, actual line, captured names).
    pending: list[tuple[int, int, int, dict[str, str]]] = [(0, 0, 0, dict(names))]
    while pending:
        expected_index, repeats, actual_index, captures = pending.pop()
        if (expected_index, min(repeats, 1_000), actual_index) in visited:
            continue
        visited.add((expected_index, min(repeats, 1_000), actual_index))
        furthest = max(furthest, (actual_index, expected_index))
        if expected_index == len(expected_lines):
            if actual_index == len(actual):
                return LineMatch(True, captures)
            continue
        line = expected_lines[expected_index]
        if actual_index < len(actual) and repeats < line.max_count:
            new_captures = _match_line(line.text, actual[actual_index], captures, patterns)
            if new_captures is not None:
                # Without an upper limit the count matters only until the minimum is reached.
                count = repeats + 1 if line.max_count < _MAX_REPEATS else min(repeats + 1, line.min_count)
                pending.append((expected_index, count, actual_index + 1, new_captures))
        if repeats >= line.min_count:
            pending.append((expected_index + 1, 0, actual_index, captures))  # tried first, because it is popped first
    return LineMatch(False, {}, furthest[1], furthest[0])


def _match_line(text: str, row: str, names: dict[str, str], patterns: Mapping[str, str]) -> dict[str, str] | None:
    """Return the captured names after this line, or None when it does not match."""
    if text == "...":
        return names
    if text == row:
        return names
    if not _LINE_PART.search(text):
        return None
    match = compile_line(text, names, patterns).fullmatch(row)
    return None if match is None else {**names, **match.groupdict()}
