"""Formats untrusted text as Markdown.

Everything except plain words becomes code, in which a forge does not look for links, names or commands.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Iterator, Sequence

from mngr.e2e.redact_secrets import Redactor
from mngr.tmr.commits import clean_untrusted_text

_WORD = re.compile(
    r"""["'(“‘]*(?:[^\W\d_]+(?:['’-][^\W\d_]+)*|\d{1,6}(?:[.,/]\d{1,6})*[^\W\d_]{0,2})?["'”’)]*[.,;:!?…]*["'”’)]*[.,;:]*|[-–—→×=+]"""
)
_QUOTED = re.compile(r"`([^`]+)`")  # text that its author marked as code
_OPENING_MARK = re.compile(r"""(?:^|(?<=[\s(]))(["'`])(?=\S)""")
_EMPTY_QUOTE = re.compile(r"""(?<=\s)["'`]…$""")  # a quote that was cut after its first mark
_AUTOLINK_NAME = re.compile(r"[0-9a-f]{7,}|www", re.I)  # may be a commit, or the beginning of a link
_TRAILING_PUNCTUATION = re.compile(r"(.*?)(\)?[.,;:]*)", re.S)
_MAX_INPUT = 4000  # characters that are read


@functools.cache
def _get_redactor() -> Redactor:
    return Redactor(os.environ)


@functools.lru_cache(20_000)
def _redact_line(value: str) -> str:
    line = _get_redactor()(clean_untrusted_text.clean_line(value, _MAX_INPUT))
    return line if line.isprintable() else "".join(char for char in line if char.isprintable())


def redact_line(value: object, max_length: int) -> str:
    """Return one line without invisible characters and secrets, shortened to `max_length` characters."""
    line = _redact_line(str(value if value is not None else ""))
    return line if len(line) <= max_length else line[: max_length - 1].rstrip() + "…"


def format_code(value: object, max_length: int = 200) -> str:
    """Return the whole text as code."""
    line = redact_line(value, max_length).replace("`", "'").strip()
    return f"`{line}`" if line else ""


def format_text(value: object, max_length: int = 200) -> str:
    """Return plain words as they are and everything else as code, including text in backticks."""
    shown = ""
    for is_code, word, is_apart in _split_code(_close_quote(redact_line(value, max_length))):
        gap = " " if shown and (is_apart or (is_code and shown.endswith("`"))) else ""
        shown += gap + (f"`{word}`" if is_code else word)
    return shown


def _close_quote(line: str) -> str:
    """Return a shortened line with the end of the quote that the cut removed."""
    if not line.endswith("…"):
        return line
    line = _EMPTY_QUOTE.sub("…", line)
    opened = list(_OPENING_MARK.finditer(line))
    if not opened:
        return line
    mark = opened[-1][1]
    is_closed = re.search(rf"{mark}(?!\w)", line[opened[-1].end() :])
    return line if is_closed else line + mark


def _split_code(line: str) -> Iterator[tuple[bool, str, bool]]:
    """Yield (is it code, the words, is there a space before them)."""
    position = 0
    for match in _QUOTED.finditer(line):
        before = line[position : match.start()]
        yield from _split_words(before)
        if inside := match[1].strip():
            yield True, inside, before[-1:].isspace()
        position = match.end()
    yield from _split_words(line[position:])


def _split_words(line: str) -> Iterator[tuple[bool, str, bool]]:
    """Yield the same for text outside backticks; adjacent words that must be code are joined."""
    code_words: list[str] = []
    is_apart = line[:1].isspace()
    for word in line.replace("`", "'").split():
        core, end = ("", word) if _is_plain(word) else _split_punctuation(word)
        if core:
            code_words.append(core)
        if not end:
            continue
        if code_words:
            yield True, " ".join(code_words), is_apart
            is_apart = not core  # punctuation follows its word without a space
            code_words = []
        yield False, end, is_apart
        is_apart = True
    if code_words:
        yield True, " ".join(code_words), is_apart


def _split_punctuation(word: str) -> tuple[str, str]:
    """Return a word and its trailing punctuation separately."""
    match = _TRAILING_PUNCTUATION.fullmatch(word)
    assert match is not None
    core, end = match.groups()
    return (core + ")", end[1:]) if end.startswith(")") and "(" in core else (core, end)


def _is_plain(word: str) -> bool:
    """True when a word cannot be mistaken for a link, a name or a commit."""
    bare = word.strip("\"'“”‘’().,;:!?…")
    return _WORD.fullmatch(word) is not None and not _AUTOLINK_NAME.fullmatch(bare)


def format_excerpt(text: str, max_lines: int, max_width: int = 160) -> list[str]:
    """Return the last lines of a text as the lines of a code block, or nothing without text."""
    lines = [_clean_excerpt_line(line, max_width) for line in text[-_MAX_INPUT:].splitlines()]
    shown = [line for line in lines if line.strip()][-max_lines:]
    return ["```text", *shown, "```"] if shown else []


def _clean_excerpt_line(line: str, max_width: int) -> str:
    """Return a line of an excerpt with its indentation, and without backticks, which could end the block."""
    indentation = " " * min(len(line) - len(line.lstrip(" ")), 20)
    text = _get_redactor()(clean_untrusted_text.clean_body(line, _MAX_INPUT)).replace("`", "'")
    text = "".join(char for char in text if char.isprintable())
    return indentation + (text if len(text) <= max_width else text[: max_width - 1] + "…")


def format_cell(value: object, max_length: int = 60) -> str:
    """Return the text for a table cell."""
    return format_text(value, max_length).replace("|", "¦")


def format_list(values: Sequence[object], max_count: int, max_length: int = 120) -> str:
    """Return the first values as code, and how many more there are."""
    shown = ", ".join(format_code(value, max_length) for value in values[:max_count])
    return f"{shown} and {len(values) - max_count} more" if len(values) > max_count else shown


def sort_known_first(words: Iterable[str], known: Sequence[str]) -> list[str]:
    """Return each word once: the known words in their order, then the others."""
    return sorted(set(words), key=lambda word: (known.index(word) if word in known else len(known), word))


def format_details(title: str, body: str) -> str:
    """Return a collapsed block; `title` must be trusted text."""
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"
