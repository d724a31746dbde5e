"""Compares a directory with the expected files."""

from __future__ import annotations

import os
from pathlib import Path

_MAX_DIFF_LINES = 20  # lines of a diff that are shown


def compare_tree(actual: Path, expected: Path | dict[str, str | bytes | None]) -> list[str]:
    """Return one line for each difference, or an empty list."""
    if not actual.is_dir():
        return [f"{actual} is not a directory"]
    if isinstance(expected, Path):
        if not expected.is_dir():
            return [f"{expected} is not a directory"]
        return _compare_directories(actual, expected)
    return [row for name, content in expected.items() for row in _compare_entry(actual, name, content)]


def _compare_entry(root: Path, name: str, content: str | bytes | None) -> list[str]:
    path = root / name
    if content is None:
        return [f"{name} exists, but should not"] if os.path.lexists(path) else []
    if name.endswith("/"):
        return [] if path.is_dir() else [f"{name} is missing"]
    if not path.is_file():
        return [f"{name} is missing" if not os.path.lexists(path) else f"{name} is not a file"]
    return _diff_contents(name, path.read_bytes(), content.encode() if isinstance(content, str) else content)


def _compare_directories(actual: Path, expected: Path) -> list[str]:
    actual_entries, expected_entries = _list_entries(actual), _list_entries(expected)
    rows = [f"{name} is missing" for name in expected_entries if name not in actual_entries]
    rows += [f"{name} exists, but should not" for name in actual_entries if name not in expected_entries]
    for name in sorted(set(actual_entries) & set(expected_entries)):
        if actual_entries[name] != expected_entries[name]:
            rows.append(f"{name} is {actual_entries[name]}, expected {expected_entries[name]}")
        elif actual_entries[name] in ("a file", "an executable file"):
            rows += _diff_contents(name, (actual / name).read_bytes(), (expected / name).read_bytes())
    return rows


def _list_entries(root: Path) -> dict[str, str]:
    """Return each path below `root` with its type. Symbolic links are not followed."""
    entries: dict[str, str] = {}
    for top, directories, files in os.walk(root):
        for name in sorted(directories + files):
            path = Path(top, name)
            key = str(path.relative_to(root))
            if path.is_symlink():
                entries[key] = f"a symbolic link to {os.readlink(path)}"
            elif path.is_dir():
                entries[key] = "a directory"
            elif path.is_file():
                entries[key] = "an executable file" if os.access(path, os.X_OK) else "a file"
            else:
                entries[key] = "something else"
    return entries


def _diff_contents(name: str, actual: bytes, expected: bytes) -> list[str]:
    if actual == expected:
        return []
    try:
        texts = expected.decode().splitlines(), actual.decode().splitlines()
    except UnicodeDecodeError:
        return [f"{name} has different content ({len(actual)} bytes, expected {len(expected)})"]
    import difflib

    rows = list(difflib.unified_diff(*texts, f"{name} (expected)", f"{name} (actual)", lineterm="", n=2))
    return rows[:_MAX_DIFF_LINES] + (["…"] if len(rows) > _MAX_DIFF_LINES else [])
