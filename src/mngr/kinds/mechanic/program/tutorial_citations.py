"""Finds and renames blocks in a tutorial, and rewrites the citations of blocks in tests."""

from __future__ import annotations

import os
import re
import textwrap
from difflib import SequenceMatcher

from mngr.kinds.mechanic.program import source_edits
from mngr.kinds.mechanic.program.rewording import rename_option

MIN_SIMILARITY = 0.6  # how similar a block must be to count as the cited one
_MIN_LEAD = 0.05  # by how much it must be more similar than any other block


def normalize_lines(text: str) -> list[str]:
    """Return the lines without surrounding white space."""
    return [row.strip() for row in text.strip().replace("\r\n", "\n").split("\n")]


def has_block(script: str, block: str) -> bool:
    """True when the script contains all lines of the block in sequence, with an empty line before and after."""
    rows, block_rows = ["", *normalize_lines(script), ""], ["", *normalize_lines(block), ""]
    size = len(block_rows)
    return any(rows[start : start + size] == block_rows for start in range(len(rows) - size + 1))


def find_nearest_block(script: str, block: str) -> str | None:
    """Return the paragraph that a citation most likely means, or None when that is not clear."""
    cited = "\n".join(normalize_lines(block))
    scored = []
    for paragraph in re.split(r"\n[ \t]*\n", script.replace("\r\n", "\n")):
        paragraph = paragraph.strip("\n")
        has_command = any(row.strip() and not row.lstrip().startswith("#") for row in paragraph.split("\n"))
        if (
            has_command and "<<" not in paragraph
        ):  # a here-document may contain empty lines, so the split above is unreliable
            scored.append(
                (
                    SequenceMatcher(None, cited, "\n".join(normalize_lines(paragraph)), autojunk=False).ratio(),
                    paragraph,
                )
            )
    scored.sort(key=lambda candidate: -candidate[0])
    if not scored or scored[0][0] < MIN_SIMILARITY:
        return None
    if len(scored) > 1 and scored[0][0] - scored[1][0] < _MIN_LEAD:
        return None
    return scored[0][1]


def rewrite_citation(
    module: source_edits.PythonSource, citation: source_edits.CitedBlock, block: str
) -> source_edits.Splice:
    """Return an edit that replaces a citation by another block in the same layout."""
    source, old = module.get_source(citation.node), citation.text.strip("\n").rstrip()
    if not citation.in_docstring:
        return (*module.get_span(citation.node), source_edits.format_literal(dedent_block(block), source, " " * 4))
    indent = old[: len(old) - len(old.lstrip())]
    new = "\n".join(f"{indent}{row}" if row.strip() else "" for row in dedent_block(block).split("\n"))
    value = str(citation.node.value)
    return (*module.get_span(citation.node), source_edits.replace_literal(source, value, value.replace(old, new)))


def dedent_block(block: str) -> str:
    """Return a block without the indentation that it has in a test."""
    return textwrap.dedent(block).strip("\n").rstrip()


def list_commands(text: str) -> list[str]:
    """Return the lines of a block that are not comments."""
    return [row for row in normalize_lines(text) if row and not row.startswith("#")]


def rename_in_block(script: str, block: str, old: str, new: str) -> str:
    """Return the script with an option renamed in one block; comments of the block stay unchanged."""
    rows, block_rows = script.split("\n"), normalize_lines(block)
    for start in range(len(rows) - len(block_rows) + 1):
        if [row.strip() for row in rows[start : start + len(block_rows)]] == block_rows:
            for number in range(start, start + len(block_rows)):
                if not rows[number].lstrip().startswith("#"):
                    rows[number] = rename_option(rows[number], old, new)
            return "\n".join(rows)
    return script


def list_test_files(work_dir: str, test: str) -> list[str]:
    """Return the files that may cite the same block: all tests below the first directory of this test's path."""
    top = test.partition("::")[0].partition("/")[0]
    paths = []
    for directory, folders, names in os.walk(os.path.join(work_dir, top)):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")))
        for name in sorted(names):
            if name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py")):
                paths.append(os.path.relpath(os.path.join(directory, name), work_dir))
    return paths or [test.partition("::")[0]]
