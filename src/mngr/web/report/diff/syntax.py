"""Divides a line of source code into parts with a kind: comment, string, number or keyword.

One line at a time is enough for a diff. A language that is not known has no parts with a kind.
"""

from __future__ import annotations

import functools
import keyword
import re
from typing import NamedTuple

from mngr.web.untrusted_text import CleanText

MAX_PARTS = 400  # Of a line. The rest of a longer line has no kind.
# A text in double quotes may lack its end, because it can span several lines.
_STRING = r""""(?:\\.|[^"\\])*+"?|'(?:\\.|[^'\\]){0,300}'|`(?:\\.|[^`\\]){0,300}`"""
_NUMBER = r"(?<![\w.])\d[\w.]*"
_HASH, _SLASHES, _DASHES = r"#.*", r"//.*|/\*.*?(?:\*/|$)", r"--.*"
_KEYWORDS = {
    "python": " ".join(keyword.kwlist) + " match case self",
    "shell": "if then else elif fi for while until do done case esac in function return exit local export set shift trap",
    "braces": "abstract as async await bool break case catch char class const continue default defer delete do double else enum export extends "
    "extern false final finally float fn for from func function go if impl implements import in instanceof int interface let long "
    "loop match mod mut new nil null package private protected pub public return self short static string struct super switch this "
    "throw trait true try type typeof undefined unsafe use using var void where while yield",
    "sql": "select from where and or not null insert into values update set delete create table drop alter join left right inner on as order by group limit",
    "data": "true false null yes no",
}
_COMMENTS = {"python": _HASH, "shell": _HASH, "data": _HASH, "braces": _SLASHES, "sql": _DASHES}
_LANGUAGES = {
    **dict.fromkeys(("py", "pyi"), "python"),
    **dict.fromkeys(("sh", "bash", "zsh", "mk", "Makefile", "Dockerfile"), "shell"),
    **dict.fromkeys(("toml", "yaml", "yml", "ini", "cfg", "conf", "json"), "data"),
    **dict.fromkeys(
        "c h cc cpp hpp cs css go java js jsx kt mjs php rs scala scss swift ts tsx".split(),
        "braces",
    ),
    "sql": "sql",
}


class CodePart(NamedTuple):
    """A part of a line."""

    kind: str  # The class of its element, or an empty text.
    text: CleanText


def find_language(path: str) -> str:
    """Return the language of a file by its name, or an empty text."""
    name = path.rpartition("/")[2]
    return _LANGUAGES.get(name.rpartition(".")[2], "")


def split_line(line: str, language: str) -> list[CodePart]:
    """Return the parts of a line, which together are the line. The line must be clean."""
    if not language:
        return [CodePart("", CleanText(line))] if line else []
    parts: list[CodePart] = []
    end = 0
    for match in _build_pattern(language).finditer(line):
        if len(parts) > MAX_PARTS:
            break
        if match.start() > end:
            parts.append(CodePart("", CleanText(line[end : match.start()])))
        parts.append(CodePart(match.lastgroup or "", CleanText(match[0])))
        end = match.end()
    if end < len(line):
        parts.append(CodePart("", CleanText(line[end:])))
    return parts


@functools.cache
def _build_pattern(language: str) -> re.Pattern[str]:
    """Return a pattern that finds the parts with a kind. No part of it can match the same text in two ways."""
    words = "|".join(sorted(_KEYWORDS[language].split(), key=len, reverse=True))
    flags = re.IGNORECASE if language == "sql" else re.NOFLAG
    return re.compile(
        rf"(?P<comment>{_COMMENTS[language]})|(?P<string>{_STRING})|(?P<number>{_NUMBER})|\b(?P<keyword>{words})\b",
        flags,
    )
