"""A tutorial as far as the mechanic needs it: whether a block is in it, which is the nearest, and a block told otherwise."""

from __future__ import annotations

import os
import re
import textwrap
from difflib import SequenceMatcher

from mngr.kinds.mechanic.program import source_edits
from mngr.kinds.mechanic.program.rewording import rename_option

MIN_SIMILARITY = 0.6  # how much of a citation must be left in a block for it to be the one that was meant
_MIN_LEAD = 0.05  # by how much it must be nearer than any other


def normalize_lines(text: str) -> list[str]:
    """The lines without what does not matter."""
    return [row.strip() for row in text.strip().replace("\r\n", "\n").split("\n")]


def has_block(script: str, block: str) -> bool:
    """Whether the block stands there whole: its lines in a row, with nothing but empty lines around them."""
    rows, wanted = ["", *normalize_lines(script), ""], ["", *normalize_lines(block), ""]
    size = len(wanted)
    return any(rows[at : at + size] == wanted for at in range(len(rows) - size + 1))


def find_nearest_block(script: str, block: str) -> str | None:
    """The paragraph that was meant by a citation that is not there; None when that is in doubt."""
    wanted = "\n".join(normalize_lines(block))
    scored = []
    for part in re.split(r"\n[ \t]*\n", script.replace("\r\n", "\n")):
        part = part.strip("\n")
        has_command = any(row.strip() and not row.lstrip().startswith("#") for row in part.split("\n"))
        if has_command and "<<" not in part:  # what may go over an empty line is for others
            scored.append(
                (
                    SequenceMatcher(None, wanted, "\n".join(normalize_lines(part)), autojunk=False).ratio(),
                    part,
                )
            )
    scored.sort(key=lambda one: -one[0])
    if not scored or scored[0][0] < MIN_SIMILARITY:
        return None
    if len(scored) > 1 and scored[0][0] - scored[1][0] < _MIN_LEAD:
        return None
    return scored[0][1]


def rewrite_citation(
    module: source_edits.PythonSource, citation: source_edits.CitedBlock, block: str
) -> source_edits.Splice:
    """A citation with another block, laid out as it was."""
    source, old = module.get_source(citation.node), citation.text.strip("\n").rstrip()
    if not citation.in_docstring:
        return (*module.get_span(citation.node), source_edits.format_literal(dedent_block(block), source, " " * 4))
    indent = old[: len(old) - len(old.lstrip())]
    new = "\n".join(f"{indent}{row}" if row.strip() else "" for row in dedent_block(block).split("\n"))
    value = str(citation.node.value)
    return (*module.get_span(citation.node), source_edits.replace_literal(source, value, value.replace(old, new)))


def dedent_block(block: str) -> str:
    """A block without the indentation it has in a test."""
    return textwrap.dedent(block).strip("\n").rstrip()


def list_commands(text: str) -> list[str]:
    """The lines of a block that are no comments."""
    return [row for row in normalize_lines(text) if row and not row.startswith("#")]


def rename_in_block(script: str, block: str, old: str, new: str) -> str:
    """The script with an option of one block called otherwise; the comments of the block stay."""
    rows, wanted = script.split("\n"), normalize_lines(block)
    for at in range(len(rows) - len(wanted) + 1):
        if [row.strip() for row in rows[at : at + len(wanted)]] == wanted:
            for number in range(at, at + len(wanted)):
                if not rows[number].lstrip().startswith("#"):
                    rows[number] = rename_option(rows[number], old, new)
            return "\n".join(rows)
    return script


def list_test_files(work: str, test: str) -> list[str]:
    """The files that may cite the same block: all tests beside and below the first folder of this one's path."""
    top = test.partition("::")[0].partition("/")[0]
    found = []
    for place, folders, names in os.walk(os.path.join(work, top)):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__")))
        for name in sorted(names):
            if name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py")):
                found.append(os.path.relpath(os.path.join(place, name), work))
    return found or [test.partition("::")[0]]
