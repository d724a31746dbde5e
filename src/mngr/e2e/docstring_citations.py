"""What a docstring says that a test is about."""

from __future__ import annotations

import re


def list_cited_blocks(doc: str) -> list[str]:
    """The sections `Tutorial block:` of a docstring, each up to the next label."""
    found: list[list[str]] = []
    inside = False
    for row in doc.splitlines():
        if re.fullmatch(r"\s*[A-Z][\w ]*:\s*", row):
            inside = row.strip() == "Tutorial block:"
            if inside:
                found.append([])
        elif inside:
            found[-1].append(row)
    return ["\n".join(rows) for rows in found]
