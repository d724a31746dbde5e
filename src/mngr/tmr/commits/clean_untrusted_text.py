"""Cleans untrusted text, so that no terminal, browser or git interprets a part of it."""

from __future__ import annotations

import re

_TERMINAL_ESCAPES = re.compile(
    r"\x1b(?:\][^\x07\x1b]*(?:\x07|\x1b\\)?|\[[0-?]*[ -/]*[@-~]?|[PX^_][^\x1b]*(?:\x1b\\)?|.?)", re.S
)
_INVISIBLE_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
_HTML_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_TRAILER = re.compile(r"^\s*(?:mngr-[a-z]+|[a-z-]+-by|change-id)\s*:", re.I)
_DATE = re.compile(r"\d{1,10} [+-](?:0\d|1[0-3])[0-5]\d")
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def is_commit_id(name: object) -> bool:
    """True when a value is a full commit id, which git cannot mistake for an option or another name."""
    return isinstance(name, str) and _COMMIT.fullmatch(name) is not None


def clean_line(text: str, max_length: int = 300) -> str:
    """Return untrusted text as one line, without anything that a terminal, a browser or git would interpret."""
    return " ".join(_remove_unsafe_characters(text).split())[:max_length].strip()


def clean_body(text: str, max_length: int = 4000) -> str:
    """Return untrusted text as several clean lines, without lines that look like trailers."""
    lines = [line.rstrip() for line in _remove_unsafe_characters(text).split("\n") if not _TRAILER.match(line)]
    return "\n".join(lines)[:max_length].strip()


def is_clean(text: str) -> bool:
    """True when cleaning would remove nothing."""
    return _remove_unsafe_characters(text) == text


def _remove_unsafe_characters(text: str) -> str:
    return _HTML_TAG.sub("‹", _INVISIBLE_CHARACTERS.sub("", _TERMINAL_ESCAPES.sub("", text)))


def clean_author(name: str, mail: str) -> str:
    """Return an author in git's format."""
    clean_name = re.sub(r"[<>\n]", "", clean_line(name, 100)).strip(" .,:;\"'") or "unknown"
    clean_mail = re.sub(r"[<>\s]", "", clean_line(mail, 100)) or "unknown@localhost"
    return f"{clean_name} <{clean_mail}>"


def clean_date(date: str) -> str:
    """Return a date in git's format, or the epoch when it is invalid."""
    return date if _DATE.fullmatch(date) else "0 +0000"
