"""Words of strangers in Markdown: whatever could be more than a word stands as code, where no forge looks for links, names or orders."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Iterator, Sequence

from mngr.e2e.redact import Redactor
from mngr.tmr.commits import untrusted

_WORD = re.compile(
    r"""["'(“‘]*(?:[^\W\d_]+(?:['’-][^\W\d_]+)*|\d{1,6}(?:[.,/]\d{1,6})*[^\W\d_]{0,2})?["'”’)]*[.,;:!?…]*["'”’)]*[.,;:]*|[-–—→×=+]"""
)
_QUOTED = re.compile(r"`([^`]+)`")  # what its writer calls code
_AUTOLINK_NAME = re.compile(r"[0-9a-f]{7,}|www", re.I)  # which may be of a commit, or the beginning of a link
_TRAILING_PUNCTUATION = re.compile(r"(.*?)(\)?[.,;:]*)", re.S)
_MAX_INPUT = 4000  # characters that are looked at


@functools.cache
def _get_redactor() -> Redactor:
    return Redactor(os.environ)


@functools.lru_cache(20_000)
def _redact_line(value: str) -> str:
    line = _get_redactor()(untrusted.clean_line(value, _MAX_INPUT))
    return line if line.isprintable() else "".join(sign for sign in line if sign.isprintable())


def sanitize_line(value: object, most: int) -> str:
    """One line without what cannot be seen, without secrets, and not too long."""
    line = _redact_line(str(value if value is not None else ""))
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def format_code(value: object, most: int = 200) -> str:
    """All of it as code."""
    line = sanitize_line(value, most).replace("`", "'").strip()
    return f"`{line}`" if line else ""


def format_text(value: object, most: int = 200) -> str:
    """Plain words as they are; the others as code, and so is what their writer calls code."""
    shown = ""
    for is_code, word, is_apart in _split_code(sanitize_line(value, most)):
        gap = " " if shown and (is_apart or (is_code and shown.endswith("`"))) else ""
        shown += gap + (f"`{word}`" if is_code else word)
    return shown


def _split_code(line: str) -> Iterator[tuple[bool, str, bool]]:
    """(is it code, the words, does a blank come before them)"""
    at = 0
    for found in _QUOTED.finditer(line):
        before = line[at : found.start()]
        yield from _split_words(before)
        if inside := found[1].strip():
            yield True, inside, before[-1:].isspace()
        at = found.end()
    yield from _split_words(line[at:])


def _split_words(line: str) -> Iterator[tuple[bool, str, bool]]:
    """The same of what is not called code; words that must be code and follow each other are one."""
    odd: list[str] = []
    is_apart = line[:1].isspace()
    for word in line.replace("`", "'").split():
        core, end = ("", word) if _is_plain(word) else _split_punctuation(word)
        if core:
            odd.append(core)
        if not end:
            continue
        if odd:
            yield True, " ".join(odd), is_apart
            is_apart = not core  # what ends a word belongs to it
            odd = []
        yield False, end, is_apart
        is_apart = True
    if odd:
        yield True, " ".join(odd), is_apart


def _split_punctuation(word: str) -> tuple[str, str]:
    """What ends a part of a sentence is none of what stands before it."""
    found = _TRAILING_PUNCTUATION.fullmatch(word)
    assert found is not None
    core, end = found.groups()
    return (core + ")", end[1:]) if end.startswith(")") and "(" in core else (core, end)


def _is_plain(word: str) -> bool:
    bare = word.strip("\"'“”‘’().,;:!?…")
    return _WORD.fullmatch(word) is not None and not _AUTOLINK_NAME.fullmatch(bare)


def format_cell(value: object, most: int = 60) -> str:
    """In a table."""
    return format_text(value, most).replace("|", "¦")


def format_list(values: Sequence[object], most: int, of: int = 120) -> str:
    """Some of several, and how many more there are."""
    shown = ", ".join(format_code(value, of) for value in values[:most])
    return f"{shown} and {len(values) - most} more" if len(values) > most else shown


def format_count(number: int, noun: str, nouns: str = "") -> str:
    """`1 task`, `2 tasks`."""
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def sort_known_first(words: Iterable[str], known: Sequence[str]) -> list[str]:
    """Each once: those that are known as they stand there, then the others."""
    return sorted(set(words), key=lambda word: (known.index(word) if word in known else len(known), word))


def format_details(title: str, body: str) -> str:
    """What is shown only to who asks; the title is ours."""
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"
