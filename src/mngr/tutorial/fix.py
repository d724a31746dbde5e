"""Rewrites stale citations where they stand, in the way they are written there."""

from __future__ import annotations

import io
import os
import re
import textwrap
import tokenize
from collections.abc import Callable

from mngr.base.model import Struct
from mngr.tutorial.blocks import Block, compute_block_id, split_lines
from mngr.tutorial.check import StaleCitation
from mngr.tutorial.citations import Citation, SourceText, decode_source, parse_tests

_STRING_TOKEN = re.compile(r"([A-Za-z]*)(\"\"\"|'''|\"|')(.*)\2", re.DOTALL)


class FixedCitation(Struct):
    """What became of one stale citation."""

    path: str
    line: int
    test: str
    block: str
    error: str | None = None  # why it was left as it is


class _CannotRewrite(Exception):
    """A citation that cannot be rewritten in the way it is written."""


def fix_citations(stale: list[StaleCitation], place_of: Callable[[str], str]) -> list[FixedCitation]:
    """Rewrite every citation whose block is beyond doubt; `place_of` says where a file is."""
    done: list[FixedCitation] = []
    for path in dict.fromkeys(one.citation.path for one in stale):
        done += _fix_file(place_of(path), [one for one in stale if one.citation.path == path])
    return done


def _fix_file(path: str, stale: list[StaleCitation]) -> list[FixedCitation]:
    with open(path, "rb") as file:
        data = file.read()
    order = [_build_key(citation) for citation in parse_tests(data, stale[0].citation.path).citations]
    done: list[FixedCitation] = []
    fresh = data
    for one in stale:
        citation, error = one.citation, one.finding.fix or None
        if not error:
            try:
                if _build_key(citation) not in order:
                    raise _CannotRewrite("the file has changed meanwhile")
                fresh = _rewrite_citation(fresh, order.index(_build_key(citation)), citation.path, one.block)
            except _CannotRewrite as refused:
                error = str(refused)
        done.append(
            FixedCitation(path=citation.path, line=citation.line, test=citation.test, block=one.block.id, error=error)
        )
    if fresh != data:
        _write_atomically(path, fresh)
    return done


def _build_key(citation: Citation) -> tuple[int, str, str]:
    return citation.line, citation.test, citation.text


def _rewrite_citation(data: bytes, at: int, path: str, block: Block) -> bytes:
    """The file with one of its citations changed; proven by reading it again."""
    text = decode_source(data)
    before = parse_tests(data, path).citations
    place = _rewrite_docstring if before[at].location.is_docstring else _rewrite_string
    start, end, new = place(SourceText(text), before[at], block)
    if "\r\n" in text:
        new = new.replace("\r\n", "\n").replace("\n", "\r\n")
    fresh = (text[:start] + new + text[end:]).encode(_detect_encoding(data))
    after = parse_tests(fresh, path).citations
    others = [(old.test, old.text) for old in (*before[:at], *before[at + 1 :])]
    kept = [(now.test, now.text) for now in (*after[:at], *after[at + 1 :])] == others
    if not kept or [(now.test, compute_block_id(now.text)) for now in after[at : at + 1]] != [
        (before[at].test, block.id)
    ]:
        raise _CannotRewrite("the block cannot be written in this place")
    return fresh


def _detect_encoding(data: bytes) -> str:
    return tokenize.detect_encoding(io.BytesIO(data).readline)[0]


def _rewrite_string(source: SourceText, citation: Citation, block: Block) -> tuple[int, int, str]:
    """The place of a string, and the string to put there."""
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
        inside = "".join(f"\n{indent}{line}".rstrip(" \t") for line in _dedent_lines(block))
        return start, end, prefix + quote * 3 + inside + f"\n{indent}" + quote * 3
    ending = "\\n" if body.endswith("\\n") else ""
    text = "\\n".join(_escape_line(line, prefix, quote) for line in _dedent_lines(block))
    return start, end, prefix + quote + text + ending + quote


def _list_string_tokens(segment: str) -> list[tuple[str, str, str]]:
    """Prefix, quotes and contents of each string."""
    found = []
    for token in tokenize.generate_tokens(io.StringIO(f"({segment})").readline):
        match = _STRING_TOKEN.fullmatch(token.string) if token.type == tokenize.STRING else None
        if match:
            found.append((match[1], match[2], match[3]))
    if not found:
        raise _CannotRewrite("the string cannot be taken apart")
    return found


def _dedent_lines(block: Block) -> list[str]:
    """The lines of a block, without the indentation that all of them have."""
    return [line.rstrip() for line in textwrap.dedent("\n".join(split_lines(block.text))).split("\n")]


def _format_body(body: str, prefix: str, quote: str, lines: list[str]) -> str:
    """What stands between triple quotes, laid out as it was."""
    rows = split_lines(body)
    head = rows[0] + "\n" if len(rows) > 1 and rows[0].strip() in ("", "\\") else ""
    filled = [row for row in (rows[1:] if head or len(rows) > 1 else []) if row.strip()]
    indent = filled[0][: len(filled[0]) - len(filled[0].lstrip())] if filled else ""
    tail = "\n" + rows[-1] if len(rows) > 1 and not rows[-1].strip() else ""
    text = "\n".join(indent + line if line else "" for line in (_escape_line(line, prefix, quote) for line in lines))
    if not tail and text.endswith(quote[0]):
        tail = "\n" + indent
    return head + (text if head else text.removeprefix(indent)) + tail


def _format_pieces(segment: str, tokens: list[tuple[str, str, str]], lines: list[str]) -> str:
    """A string in pieces, one for each line, as far apart as they were."""
    prefix, quote = tokens[0][0].lower().replace("r", ""), tokens[0][1][0]
    gaps = re.findall(r"(?<=['\"])[ \t]*\r?\n[ \t]*(?=[A-Za-z]*['\"])", segment)
    last = "\\n" if tokens[-1][2].endswith("\\n") else ""
    pieces = [_escape_line(line, prefix, quote) + "\\n" for line in lines[:-1]]
    pieces.append(_escape_line(lines[-1], prefix, quote) + last)
    return (gaps[0] if gaps else " ").join(f"{prefix}{quote}{piece}{quote}" for piece in pieces)


def _rewrite_docstring(source: SourceText, citation: Citation, block: Block) -> tuple[int, int, str]:
    """The lines of a docstring, and those to put there."""
    place = citation.location
    if not place.first_line:
        raise _CannotRewrite("it begins behind its label, or the docstring is made of several strings")
    start, end = source.get_span(place.node)
    prefix, quote, _ = _list_string_tokens(source.text[start:end])[0]
    first = source.get_offset(place.first_line)
    row = source.text[first : source.starts[place.first_line] if place.first_line < len(source.starts) else None]
    indent = row[: len(row) - len(row.lstrip())]
    text = "\n".join(
        indent + line if line else "" for line in (_escape_line(line, prefix, quote) for line in _dedent_lines(block))
    )
    if place.last_line == place.node.end_lineno:
        return first, end, text + (f"\n{indent}" if text.endswith(quote[0]) else "") + quote
    return first, source.starts[place.last_line], text + "\n"


def _escape_line(line: str, prefix: str, quote: str) -> str:
    """A line as it must be written between these quotes."""
    if "r" in prefix.lower():
        if quote in line:
            raise _CannotRewrite(f"a raw string cannot hold {quote}")
        return line
    line = line.replace("\\", "\\\\")
    return line.replace(quote, "".join("\\" + sign for sign in quote))


def _write_atomically(path: str, data: bytes) -> None:
    """In one step, with the mode it had; a link stays one."""
    path = os.path.realpath(path)
    fresh = f"{path}.{os.getpid()}.new"
    try:
        with open(fresh, "wb") as file:
            file.write(data)
        os.chmod(fresh, os.stat(path).st_mode & 0o7777)
        os.replace(fresh, path)
    except BaseException:
        if os.path.exists(fresh):
            os.unlink(fresh)
        raise
