"""`--e2e-update`: what was expected and is not so becomes a patch for somebody to look at."""

from __future__ import annotations

import ast
import difflib
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mngr.e2e import line_matching

_notes_dir: Path | None = None  # where notes go; None when nobody wants to update


def start_updates(place: Path) -> None:
    """From now on an expectation that does not hold is noted instead of failing."""
    global _notes_dir
    _notes_dir = place


def note_mismatch(old: str, new: str, *, exact: bool = False) -> bool:
    """Remember what the literal `old` in the calling test should be; False when nobody wants to know."""
    if _notes_dir is None:
        return False
    frame = sys._getframe(2)  # of whoever called the expectation
    row = {
        "path": frame.f_code.co_filename,
        "line": frame.f_lineno,
        "old": old,
        "new": new,
        "exact": exact,
    }
    with (_notes_dir / f"update-{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
    return True


def generalize_lines(
    expected: list[str], actual: list[str], names: Mapping[str, str], patterns: Mapping[str, str]
) -> list[str]:
    """The lines as they are, in the words of the old expectation where those still fit: `...`, `<name>`, `[TIME]`."""
    made: list[str] = []
    last = (-1, -1)
    for here in [*_match_old_lines(expected, actual, names, patterns), (len(expected), len(actual))]:
        old, rows = expected[last[0] + 1 : here[0]], actual[last[1] + 1 : here[1]]
        made += _replace_lines(old, [_escape_line(row, patterns) for row in rows])
        if here[1] < len(actual) and (rows or here[0] != last[0]):  # one that may come often stands there once
            made.append(expected[here[0]])
        last = here
    fits = line_matching.match_lines(made, actual, names, patterns).is_match
    return made if fits else [_escape_line(row, patterns) for row in actual]


def _match_old_lines(
    expected: list[str], actual: list[str], names: Mapping[str, str], patterns: Mapping[str, str]
) -> list[tuple[int, int]]:
    """Which old line each line fits, by their places, in order; `...` aside."""
    found: list[tuple[int, int]] = []
    first = 0
    for at, row in enumerate(actual):
        fits = (n for n in range(first, len(expected)) if _is_matching(expected[n], row, names, patterns))
        if (old := next(fits, None)) is not None:
            found.append((old, at))
            first = old if line_matching.parse_line(expected[old]).max_count > 1 else old + 1
    return found


def _replace_lines(old: list[str], rows: list[str]) -> list[str]:
    """New lines in the place of old ones; where these left lines out, as many as they named stand there."""
    if "..." not in old:
        return rows
    before, after = old.index("..."), old[::-1].index("...")
    if before + after > len(rows):
        return rows
    return [*rows[:before], "...", *rows[len(rows) - after :]]


def _is_matching(old: str, row: str, names: Mapping[str, str], patterns: Mapping[str, str]) -> bool:
    line = line_matching.parse_line(old)
    return line.text != "..." and line_matching.compile_line(line.text, names, patterns).fullmatch(row) is not None


def _escape_line(row: str, patterns: Mapping[str, str]) -> str:
    """A line that stands for itself, but for the places that are never the same."""
    shown = line_matching.escape_text(row)
    for name, pattern in patterns.items():
        if name not in line_matching.PATTERNS or name in ("TIME", "UUID"):
            shown = re.sub(pattern, f"[{name}]", shown)
    return line_matching.escape_quantity(shown)


def build_patch(place: Path, root: Path) -> tuple[str, list[str]]:
    """All notes as one unified diff, with paths from `root`; and where somebody must look, for it is no plain text."""
    notes = [json.loads(row) for file in sorted(place.glob("update-*.jsonl")) for row in file.read_text().splitlines()]
    by_path: dict[str, list[dict[str, Any]]] = {}
    for row in notes:
        by_path.setdefault(row["path"], []).append(row)
    text, missed = "", []
    for path, rows in sorted(by_path.items()):
        name = os.path.relpath(path, root)
        before = Path(path).read_text(encoding="utf-8")
        after, by_hand = _rewrite_source(before, rows)
        text += "".join(
            difflib.unified_diff(
                before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{name}", f"b/{name}"
            )
        )
        missed += [f"{name}:{line}" for line in by_hand]
    return text, missed


def _rewrite_source(source: str, rows: list[dict[str, Any]]) -> tuple[str, list[int]]:
    """The source with each literal replaced that a note speaks of; and the lines of those that could not be."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    edits: dict[tuple[int, int], bytes] = {}
    missed: dict[int, None] = {}
    tree = ast.parse(source)
    for row in rows:
        node = _find_literal(tree, row["old"], row["line"])
        if node is None or node.end_lineno is None or node.end_col_offset is None:
            missed[row["line"]] = None
            continue
        text = row["new"]
        new = repr(text) if row["exact"] else _format_literal(text, row["old"], source, node.lineno)
        span = (starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset)
        if edits.setdefault(span, new.encode()) != new.encode():  # one text, and two outputs
            missed[row["line"]] = None
    data = source.encode()
    for (start, end), piece in sorted(edits.items(), reverse=True):
        data = data[:start] + piece + data[end:]
    return data.decode(), list(missed)


def _find_literal(tree: ast.Module, text: str, line: int) -> ast.Constant | None:
    """The literal in the call at a line; else the only one of that text, which a variable may hold."""
    calls = [
        argument
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or 0)
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("to_equal", "to_match_lines")
        for argument in node.args
        if isinstance(argument, ast.Constant) and argument.value == text
    ]
    if calls:
        return min(calls, key=lambda found: abs(found.lineno - line))
    every = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value == text]
    return every[0] if len(every) == 1 else None


def _format_literal(text: str, old: str, source: str, line: int) -> str:
    """Lines as Python writes them, as far to the right as the old ones were."""
    if "\n" not in text or '"""' in text:
        return repr(text)
    row = source.splitlines()[line - 1]
    usual = row[: len(row) - len(row.lstrip())]
    first = next((row for row in old.split("\n")[1:] if row.strip()), f"{usual}    ")
    inner = first[: len(first) - len(first.lstrip())]
    last = old.rpartition("\n")[2]
    outer = last if "\n" in old and not last.strip() else usual
    rows = [f"{inner}{row}".rstrip() for row in text.replace("\\", "\\\\").split("\n")]
    return '"""\n' + "\n".join(rows) + f'\n{outer}"""'
