"""Reads the `Tutorial block:` sections from the docstring of a test."""

from __future__ import annotations

import re


def list_cited_blocks(doc: str) -> list[str]:
    """Return the `Tutorial block:` sections of a docstring, each up to the next label."""
    blocks: list[list[str]] = []
    is_in_block = False
    for row in doc.splitlines():
        if re.fullmatch(r"\s*[A-Z][\w ]*:\s*", row):
            is_in_block = row.strip() == "Tutorial block:"
            if is_in_block:
                blocks.append([])
        elif is_in_block:
            blocks[-1].append(row)
    return ["\n".join(rows) for rows in blocks]
