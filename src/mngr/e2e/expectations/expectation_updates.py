"""`--e2e-update`: turns failed expectations into a patch that a person can review."""

from __future__ import annotations

import ast
import difflib
import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from mngr.e2e.expectations import line_matching


@dataclass(frozen=True)
class NotedMismatch:
    """A literal in a test, and the text that it should be."""

    path: str
    line: int
    old: str
    new: str
    exact: bool


_notes_dir: Path | None = None  # where mismatches are written; None without --e2e-update


def start_updates(directory: Path) -> None:
    """Note failed expectations in `directory` from now on, instead of failing the test."""
    global _notes_dir
    _notes_dir = directory


def note_mismatch(old: str, new: str, *, exact: bool = False) -> bool:
    """Note that the literal `old` in the calling test should be `new`. False without --e2e-update."""
    if _notes_dir is None:
        return False
    frame = sys._getframe(2)  # the frame of the test that called the expectation
    note = NotedMismatch(path=frame.f_code.co_filename, line=frame.f_lineno, old=old, new=new, exact=exact)
    with (_notes_dir / f"update-{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(note)) + "\n")
    return True


def generalize_lines(
    expected: list[str], actual: list[str], names: Mapping[str, str], patterns: Mapping[str, str]
) -> list[str]:
    """Return the actual lines, with `...`, `<name>` and `[TIME]` where the old expectation still matches."""
    lines: list[str] = []
    previous = (-1, -1)
    for pair in [*_match_old_lines(expected, actual, names, patterns), (len(expected), len(actual))]:
        old, rows = expected[previous[0] + 1 : pair[0]], actual[previous[1] + 1 : pair[1]]
        lines += _replace_lines(old, [_escape_line(row, patterns) for row in rows])
        if pair[1] < len(actual) and (rows or pair[0] != previous[0]):  # A line with a quantity is added only once.
            lines.append(expected[pair[0]])
        previous = pair
    is_match = line_matching.match_lines(lines, actual, names, patterns).is_match
    return lines if is_match else [_escape_line(row, patterns) for row in actual]


def _match_old_lines(
    expected: list[str], actual: list[str], names: Mapping[str, str], patterns: Mapping[str, str]
) -> list[tuple[int, int]]:
    """Return pairs of line indexes (expected, actual) that match, in order. `...` lines are ignored."""
    pairs: list[tuple[int, int]] = []
    first = 0
    for index, row in enumerate(actual):
        matches = (n for n in range(first, len(expected)) if _is_matching(expected[n], row, names, patterns))
        if (old := next(matches, None)) is not None:
            pairs.append((old, index))
            first = old if line_matching.parse_line(expected[old]).max_count > 1 else old + 1
    return pairs


def _replace_lines(old: list[str], rows: list[str]) -> list[str]:
    """Return the new lines. If the old lines contained `...`, keep it, with as many lines around it as before."""
    if "..." not in old:
        return rows
    before, after = old.index("..."), old[::-1].index("...")
    if before + after > len(rows):
        return rows
    return [*rows[:before], "...", *rows[len(rows) - after :]]


def _is_matching(old: str, row: str, names: Mapping[str, str], patterns: Mapping[str, str]) -> bool:
    expected_line = line_matching.parse_line(old)
    return (
        expected_line.text != "..."
        and line_matching.compile_line(expected_line.text, names, patterns).fullmatch(row) is not None
    )


def _escape_line(row: str, patterns: Mapping[str, str]) -> str:
    """Return an expected line that matches only this line, except for times, UUIDs and the test's own redactions."""
    escaped = line_matching.escape_text(row)
    for name, pattern in patterns.items():
        if name not in line_matching.PATTERNS or name in ("TIME", "UUID"):
            escaped = re.sub(pattern, f"[{name}]", escaped)
    return line_matching.escape_quantity(escaped)


def build_patch(notes_dir: Path, root: Path) -> tuple[str, list[str]]:
    """Return all notes as one unified diff relative to `root`, and the places that a person must edit by hand."""
    notes = _read_notes(notes_dir)
    text, missed = "", []
    for path in sorted({note.path for note in notes}):
        name = os.path.relpath(path, root)
        before = Path(path).read_text(encoding="utf-8")
        after, by_hand = _rewrite_source(before, [note for note in notes if note.path == path])
        old_lines, new_lines = before.splitlines(keepends=True), after.splitlines(keepends=True)
        text += "".join(difflib.unified_diff(old_lines, new_lines, f"a/{name}", f"b/{name}"))
        missed += [f"{name}:{line}" for line in by_hand]
    return text, missed


def _read_notes(notes_dir: Path) -> list[NotedMismatch]:
    notes: list[NotedMismatch] = []
    for file in sorted(notes_dir.glob("update-*.jsonl")):
        notes += [NotedMismatch(**json.loads(row)) for row in file.read_text().splitlines()]
    return notes


def _rewrite_source(source: str, notes: list[NotedMismatch]) -> tuple[str, list[int]]:
    """Return the source with each noted literal replaced, and the lines of literals that could not be replaced."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    edits: dict[tuple[int, int], bytes] = {}
    missed_lines: dict[int, None] = {}
    tree = ast.parse(source)
    for note in notes:
        node = _find_literal(tree, note.old, note.line)
        if node is None or node.end_lineno is None or node.end_col_offset is None:
            missed_lines[note.line] = None
            continue
        new = repr(note.new) if note.exact else _format_literal(note.new, note.old, source, node.lineno)
        span = (starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset)
        # The same literal was compared with two different outputs.
        if edits.setdefault(span, new.encode()) != new.encode():
            missed_lines[note.line] = None
    data = source.encode()
    for (start, end), piece in sorted(edits.items(), reverse=True):
        data = data[:start] + piece + data[end:]
    return data.decode(), list(missed_lines)


def _find_literal(tree: ast.Module, text: str, line: int) -> ast.Constant | None:
    """Return the literal in the call at `line`, else the only literal with this text in the file."""
    arguments = [
        argument
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or 0)
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("to_equal", "to_match_lines")
        for argument in node.args
        if isinstance(argument, ast.Constant) and argument.value == text
    ]
    if arguments:
        return min(arguments, key=lambda argument: abs(argument.lineno - line))
    literals = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value == text]
    return literals[0] if len(literals) == 1 else None


def _format_literal(text: str, old: str, source: str, line: int) -> str:
    """Return the text as a Python literal, indented like the old one."""
    if "\n" not in text or '"""' in text:
        return repr(text)
    row = source.splitlines()[line - 1]
    indentation = row[: len(row) - len(row.lstrip())]
    first = next((row for row in old.split("\n")[1:] if row.strip()), f"{indentation}    ")
    inner = first[: len(first) - len(first.lstrip())]
    last = old.rpartition("\n")[2]
    outer = last if "\n" in old and not last.strip() else indentation
    rows = [f"{inner}{row}".rstrip() for row in text.replace("\\", "\\\\").split("\n")]
    return '"""\n' + "\n".join(rows) + f'\n{outer}"""'
