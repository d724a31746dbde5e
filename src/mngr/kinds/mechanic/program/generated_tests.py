"""Writes the source of one test for each observed block, marked as observed and not reviewed."""

from __future__ import annotations

import keyword
import re

from mngr.kinds.mechanic.program.stable_block_output import JobBlock, ObservedBlock, build_script

IMPORTS = "from mngr.e2e import E2eSession, expect\n"
FILE_HEADER = '''"""The observed output of the blocks of {script}. Nobody has reviewed these tests yet: remove the mark after a review."""

from __future__ import annotations

import pytest

{imports}'''


def write_test_module(script_name: str, observed: list[ObservedBlock], taken: set[str]) -> str:
    """Return the source of a test file; it does not use the names in `taken`."""
    setups: dict[str, str] = {}
    for observation in observed:
        if observation.setup and observation.setup not in setups:
            setups[observation.setup] = f"BEFORE_{len(setups) + 1}"
    parts = [FILE_HEADER.format(script=script_name.replace('"', "'"), imports=IMPORTS)]
    for setup, name in setups.items():
        parts.append(
            f"\n# The blocks before this one in the script.\n{name} = {_format_exact_literal(build_script(setup, ''))}\n"
        )
    used_names = set(taken)
    for observation in observed:
        parts.append(_write_test(observation, setups.get(observation.setup), used_names))
    return "".join(parts)


def has_citation(text: str, block: JobBlock) -> bool:
    """True when a file has a generated test for the block."""
    return f"e2e.write_tutorial_block({_format_block_literal(block.text, '    ')})" in text


def _write_test(observation: ObservedBlock, setup: str | None, used_names: set[str]) -> str:
    name = _choose_test_name(observation.block.slug, used_names)
    comment = observation.block.slug.replace("-", " ")
    command = (
        f"{setup} + {_format_exact_literal(observation.block.text)}"
        if setup
        else _format_exact_literal(observation.block.text)
    )
    rows = [
        f"\n\n@pytest.mark.observed\ndef {name}(e2e: E2eSession) -> None:",
        f"    e2e.write_tutorial_block({_format_block_literal(observation.block.text, '    ')})",
        f"    result = e2e.run({command}, comment={comment!r})",
        "    expect(result).to_succeed()",
    ]
    for stream, lines in (("stdout", observation.out), ("stderr", observation.err)):
        if lines is not None:
            rows.append(
                f"    expect(result.{stream}).to_match_lines({_format_block_literal(chr(10).join(lines), '    ')})"
            )
    return "\n".join(rows) + "\n"


def _choose_test_name(slug: str, used_names: set[str]) -> str:
    plain = re.sub(r"[^a-z0-9]+", "_", slug.lower()).strip("_") or "block"
    name, number = f"test_{plain}", 1
    while name in used_names or keyword.iskeyword(name):
        number += 1
        name = f"test_{plain}_{number}"
    used_names.add(name)
    return name


def _format_exact_literal(text: str) -> str:
    """Return a literal of exactly this text."""
    if "\n" not in text or not _is_plain(text) or text.endswith('"'):
        return repr(text)
    return f'{_add_raw_prefix(text)}"""{text}"""'


def _format_block_literal(text: str, indent: str) -> str:
    """Return a literal with this text on separate lines, for callers that ignore indentation."""
    if not _is_plain(text):
        return repr(text)
    body = "\n".join(f"{indent}{row}" if row.strip() else "" for row in text.split("\n"))
    return f'{_add_raw_prefix(text)}"""\n{body}\n{indent}"""'


def _is_plain(text: str) -> bool:
    return (
        '"""' not in text
        and not any(ord(char) < 32 and char not in "\n\t" for char in text)
        and not text.endswith("\\")
    )


def _add_raw_prefix(text: str) -> str:
    return "r" if "\\" in text else ""
