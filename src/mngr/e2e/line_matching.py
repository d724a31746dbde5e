"""Expected output, line by line.

...              alone: any lines, also none; in a line: any text
text (?)         perhaps; (*) any number of such lines; (+) at least one; (3) three; (2,4) two to four
<name>           a word, kept under this name; where the name is known already, what it stands for
[TIME]           what varies and has a name
\\                before any of these, also before the ( of a quantity: it stands for itself
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
_MAX_REPEATS = 1_000_000  # lines: more than any output that is kept


@dataclass(frozen=True)
class ExpectedLine:
    """One line of an expectation: how it looks and how often it may come."""

    text: str
    min_count: int = 1
    max_count: int = 1


@dataclass(frozen=True)
class LineMatch:
    """Whether all lines fit, what was captured on the way, and otherwise how far it went."""

    is_match: bool
    names: dict[str, str] = field(default_factory=dict)
    expected_at: int = 0  # the first lines that do not fit, counted from 0
    actual_at: int = 0


def split_expected(text: str) -> list[str]:
    """The lines of an expectation as it stands in a test: without its indentation and its empty ends."""
    import textwrap

    rows = textwrap.dedent(text.replace("\r\n", "\n")).split("\n")
    while rows and not rows[0].strip():
        rows.pop(0)
    while rows and not rows[-1].strip():
        rows.pop()
    return [row.rstrip() for row in rows]


def split_output(text: str) -> list[str]:
    """The lines of what was printed. How far all of them are indented does not count, for an expectation cannot tell."""
    import textwrap

    plain = textwrap.dedent(text.replace("\r\n", "\n")).removesuffix("\n")
    return [row.rstrip() for row in plain.split("\n")] if plain else []


def escape_text(text: str) -> str:
    """A part of a line that stands for itself."""
    return _SPECIAL_TEXT.sub(lambda found: "\\" + found[0], text)


def escape_quantity(row: str) -> str:
    """A whole line whose end is no quantity."""
    return _ESCAPABLE_QUANTITY.sub(r" \\", row)


def parse_line(row: str) -> ExpectedLine:
    """A line with its number of times."""
    if row == "...":
        return ExpectedLine("...", 0, _MAX_REPEATS)
    found = _QUANTITY_SUFFIX.search(row)
    if found is None:
        return ExpectedLine(row)
    word, text = found[1], row[: found.start()]
    if word in "?*+":
        least, most = {"?": (0, 1), "*": (0, _MAX_REPEATS), "+": (1, _MAX_REPEATS)}[word]
    else:
        low, comma, high = word.partition(",")
        least = int(low)
        most = int(high) if high else _MAX_REPEATS if comma else least
    return ExpectedLine(text, least, most)


def compile_line(text: str, names: Mapping[str, str], patterns: Mapping[str, str]) -> re.Pattern[str]:
    """What a line must look like."""
    made, at, seen = "", 0, set()
    for part in _LINE_PART.finditer(text):
        made += re.escape(text[at : part.start()])
        at = part.end()
        escaped, name, pattern, _ = part.groups()
        if escaped:
            made += re.escape(escaped)
        elif name and name in names:
            made += re.escape(names[name])
        elif name:
            made += f"(?P={name})" if name in seen else rf"(?P<{name}>\S+?)"
            seen.add(name)
        elif pattern and pattern in patterns:
            made += f"(?:{patterns[pattern]})"
        elif pattern:
            made += re.escape(part[0])
        else:
            made += ".*?"
    return re.compile(made + re.escape(text[at:]), re.DOTALL)


def match_lines(
    expected: list[str], actual: list[str], names: Mapping[str, str], patterns: Mapping[str, str]
) -> LineMatch:
    """Whether the lines are as expected. Lines that may come any number of times take as few as will do.

    It looks at most at every pair of an expected and an actual line once for each way the names were filled: a line that
    captures is taken where it first fits.
    """
    wanted = [parse_line(row) for row in expected]
    far = (0, 0)
    dead: set[tuple[int, int, int]] = set()

    # What is still to be tried: (line of the expectation, how often it fit already, line of the output, names).
    todo: list[tuple[int, int, int, dict[str, str]]] = [(0, 0, 0, dict(names))]
    while todo:
        e, times, a, known = todo.pop()
        if (e, min(times, 1_000), a) in dead:
            continue
        dead.add((e, min(times, 1_000), a))
        far = max(far, (a, e))
        if e == len(wanted):
            if a == len(actual):
                return LineMatch(True, known)
            continue
        line = wanted[e]
        if a < len(actual) and times < line.max_count:
            grown = _match_line(line.text, actual[a], known, patterns)
            if grown is not None:
                # With no upper limit the count matters only until the least is reached.
                count = times + 1 if line.max_count < _MAX_REPEATS else min(times + 1, line.min_count)
                todo.append((e, count, a + 1, grown))
        if times >= line.min_count:
            todo.append((e + 1, 0, a, known))  # is tried first
    return LineMatch(False, {}, far[1], far[0])


def _match_line(text: str, row: str, names: dict[str, str], patterns: Mapping[str, str]) -> dict[str, str] | None:
    """The names after this line; None when it does not fit."""
    if text == "...":
        return names
    if text == row:
        return names
    if not _LINE_PART.search(text):
        return None
    found = compile_line(text, names, patterns).fullmatch(row)
    return None if found is None else {**names, **found.groupdict()}
