"""Rewrites stale citations in place, and keeps the way they are written."""

from __future__ import annotations

import io
import os
import re
import textwrap
import tokenize
from collections.abc import Callable

from mngr.base.model import Struct
from mngr.tutorial.blocks import Block, compute_block_id, split_lines
from mngr.tutorial.check_citations import StaleCitation
from mngr.tutorial.citations import Citation, SourceText, decode_source, parse_tests

_STRING_TOKEN = re.compile(r"([A-Za-z]*)(\"\"\"|'''|\"|')(.*)\2", re.DOTALL)


class FixedCitation(Struct):
    """The outcome for one stale citation."""

    path: str
    line: int
    test: str
    block: str
    error: str | None = None  # why it was not rewritten


class _CannotRewrite(Exception):
    """A citation cannot be rewritten in its present form."""


def fix_citations(stale: list[StaleCitation], to_full_path: Callable[[str], str]) -> list[FixedCitation]:
    """Rewrite every citation whose block is certain. `to_full_path` returns the full path of a file."""
    fixed: list[FixedCitation] = []
    for path in dict.fromkeys(item.citation.path for item in stale):
        fixed += _fix_file(to_full_path(path), [item for item in stale if item.citation.path == path])
    return fixed


def _fix_file(path: str, stale: list[StaleCitation]) -> list[FixedCitation]:
    with open(path, "rb") as file:
        data = file.read()
    keys = [_build_key(citation) for citation in parse_tests(data, stale[0].citation.path).citations]
    fixed: list[FixedCitation] = []
    new_data = data
    for item in stale:
        citation, error = item.citation, item.finding.fix or None
        if not error:
            try:
                if _build_key(citation) not in keys:
                    raise _CannotRewrite("the file has changed in the meantime")
                new_data = _rewrite_citation(new_data, keys.index(_build_key(citation)), citation.path, item.block)
            except _CannotRewrite as problem:
                error = str(problem)
        fixed.append(
            FixedCitation(path=citation.path, line=citation.line, test=citation.test, block=item.block.id, error=error)
        )
    if new_data != data:
        _write_atomically(path, new_data)
    return fixed


def _build_key(citation: Citation) -> tuple[int, str, str]:
    return citation.line, citation.test, citation.text


def _rewrite_citation(data: bytes, index: int, path: str, block: Block) -> bytes:
    """Return the file with one citation rewritten. Read the new file again to prove that nothing else changed."""
    text = decode_source(data)
    before = parse_tests(data, path).citations
    rewrite = _rewrite_docstring if before[index].location.is_docstring else _rewrite_string
    start, end, new = rewrite(SourceText(text), before[index], block)
    if "\r\n" in text:
        new = new.replace("\r\n", "\n").replace("\n", "\r\n")
    new_data = (text[:start] + new + text[end:]).encode(_detect_encoding(data))
    after = parse_tests(new_data, path).citations
    other_citations = [(citation.test, citation.text) for citation in (*before[:index], *before[index + 1 :])]
    others_unchanged = [
        (citation.test, citation.text) for citation in (*after[:index], *after[index + 1 :])
    ] == other_citations
    if not others_unchanged or [
        (citation.test, compute_block_id(citation.text)) for citation in after[index : index + 1]
    ] != [(before[index].test, block.id)]:
        raise _CannotRewrite("mngr cannot write the block in this place")
    return new_data


def _detect_encoding(data: bytes) -> str:
    return tokenize.detect_encoding(io.BytesIO(data).readline)[0]


def _rewrite_string(source: SourceText, citation: Citation, block: Block) -> tuple[int, int, str]:
    """Return the start and end of a string literal, and its replacement."""
    start, end = source.get_span(citation.location.node)
    tokens = _list_string_tokens(source.text[start:end])
    line = source.text[source.get_offset(citation.location.node.lineno) : start]
    indent = line[: len(line) - len(line.lstrip())]
    if len(tokens) > 1:
        return start, end, _format_pieces(source.text[start:end], tokens, _dedent_lines(block))
    prefix, quote, body = tokens[0]
    if len(quote) == 3:
        return start, end, prefix + quote + _format_body(body, prefix, quote, _dedent_lines(block)) + quote
    if "r" in prefix.lower() and len(_dedent_lines(block)) > 1:
        lines_text = "".join(f"\n{indent}{line}".rstrip(" \t") for line in _dedent_lines(block))
        return start, end, prefix + quote * 3 + lines_text + f"\n{indent}" + quote * 3
    final_newline = "\\n" if body.endswith("\\n") else ""
    text = "\\n".join(_escape_line(line, prefix, quote) for line in _dedent_lines(block))
    return start, end, prefix + quote + text + final_newline + quote


def _list_string_tokens(segment: str) -> list[tuple[str, str, str]]:
    """Return the prefix, quotes and content of each string literal."""
    strings = []
    for token in tokenize.generate_tokens(io.StringIO(f"({segment})").readline):
        match = _STRING_TOKEN.fullmatch(token.string) if token.type == tokenize.STRING else None
        if match:
            strings.append((match[1], match[2], match[3]))
    if not strings:
        raise _CannotRewrite("mngr cannot parse the string")
    return strings


def _dedent_lines(block: Block) -> list[str]:
    """Return the lines of a block without their common indentation."""
    return [line.rstrip() for line in textwrap.dedent("\n".join(split_lines(block.text))).split("\n")]


def _format_body(body: str, prefix: str, quote: str, lines: list[str]) -> str:
    """Return the content of a triple-quoted string, in the layout of the old content."""
    rows = split_lines(body)
    head = rows[0] + "\n" if len(rows) > 1 and rows[0].strip() in ("", "\\") else ""
    nonempty = [row for row in (rows[1:] if head or len(rows) > 1 else []) if row.strip()]
    indent = nonempty[0][: len(nonempty[0]) - len(nonempty[0].lstrip())] if nonempty else ""
    tail = "\n" + rows[-1] if len(rows) > 1 and not rows[-1].strip() else ""
    text = "\n".join(indent + line if line else "" for line in (_escape_line(line, prefix, quote) for line in lines))
    if not tail and text.endswith(quote[0]):
        tail = "\n" + indent
    return head + (text if head else text.removeprefix(indent)) + tail


def _format_pieces(segment: str, tokens: list[tuple[str, str, str]], lines: list[str]) -> str:
    """Return adjacent string literals, one per line, separated like the old ones."""
    prefix, quote = tokens[0][0].lower().replace("r", ""), tokens[0][1][0]
    gaps = re.findall(r"(?<=['\"])[ \t]*\r?\n[ \t]*(?=[A-Za-z]*['\"])", segment)
    final_newline = "\\n" if tokens[-1][2].endswith("\\n") else ""
    pieces = [_escape_line(line, prefix, quote) + "\\n" for line in lines[:-1]]
    pieces.append(_escape_line(lines[-1], prefix, quote) + final_newline)
    return (gaps[0] if gaps else " ").join(f"{prefix}{quote}{piece}{quote}" for piece in pieces)


def _rewrite_docstring(source: SourceText, citation: Citation, block: Block) -> tuple[int, int, str]:
    """Return the start and end of the docstring lines, and their replacement."""
    location = citation.location
    if not location.first_line:
        raise _CannotRewrite(
            "the citation starts on the line of its label, or the docstring consists of several strings"
        )
    start, end = source.get_span(location.node)
    prefix, quote, _ = _list_string_tokens(source.text[start:end])[0]
    first = source.get_offset(location.first_line)
    row = source.text[first : source.starts[location.first_line] if location.first_line < len(source.starts) else None]
    indent = row[: len(row) - len(row.lstrip())]
    text = "\n".join(
        indent + line if line else "" for line in (_escape_line(line, prefix, quote) for line in _dedent_lines(block))
    )
    if location.last_line == location.node.end_lineno:
        return first, end, text + (f"\n{indent}" if text.endswith(quote[0]) else "") + quote
    return first, source.starts[location.last_line], text + "\n"


def _escape_line(line: str, prefix: str, quote: str) -> str:
    """Return a line as it must be written between these quotes."""
    if "r" in prefix.lower():
        if quote in line:
            raise _CannotRewrite(f"a raw string cannot contain {quote}")
        return line
    line = line.replace("\\", "\\\\")
    return line.replace(quote, "".join("\\" + char for char in quote))


def _write_atomically(path: str, data: bytes) -> None:
    """Replace a file in one step, and keep its mode. A symbolic link stays a link."""
    path = os.path.realpath(path)
    new_path = f"{path}.{os.getpid()}.new"
    try:
        with open(new_path, "wb") as file:
            file.write(data)
        os.chmod(new_path, os.stat(path).st_mode & 0o7777)
        os.replace(new_path, path)
    except BaseException:
        if os.path.exists(new_path):
            os.unlink(new_path)
        raise
