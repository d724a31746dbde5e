"""The options in a command's words, and what must be left out with each."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

WordRange = tuple[int, int]  # the words from … to


_USAGE_WORDS = ("--help", "-h", "help")


def is_usage_request(args: Sequence[str]) -> bool:
    """Whether a command asks for the very text that a stub would print."""
    return any(word in _USAGE_WORDS for word in _list_own_words(args))


def list_command_words(args: Sequence[str]) -> list[str]:
    """The words before the first option: commands, mostly."""
    found: list[str] = []
    for word in _list_own_words(args):
        if word.startswith("-"):
            break
        found.append(word)
    return found


def list_options(args: Sequence[str], takes_value: Callable[[str], bool | None]) -> list[tuple[str, list[WordRange]]]:
    """Each option and the words to leave out: two proposals where nobody knows whether it takes a value."""
    own = _list_own_words(args)
    found: list[tuple[str, list[WordRange]]] = []
    at = 0
    while at < len(own):
        word = own[at]
        width = 1
        if word.startswith("-") and word != "-" and not word[1:2].isdigit():
            flag, mark, _ = word.partition("=")
            alone, pair = (at, at + 1), (at, at + 2)
            has_next = not mark and at + 1 < len(own) and (own[at + 1] == "-" or own[at + 1][:1] != "-")
            takes = takes_value(flag) if has_next else False
            found.append((flag, [alone] if takes is False else [pair] if takes else [pair, alone]))
            width = 2 if takes else 1
        at += width
    return found


def can_take_value(flag: str, usage: str) -> bool | None:
    """Whether an option takes a value, by what a help says; None when it does not say."""
    name = rf"(?<![\w-]){re.escape(flag)}(?![\w-])(?:, *-[\w-]+)*"
    value = r"[ =][\[\]-]*(?:<[^>\n]+>|\{|[A-Z][A-Z0-9_]*\b|[a-z]+(?= {2,}|\n))"
    if re.search(name + value, usage):
        return True
    return False if re.search(name, usage) else None


def _list_own_words(args: Sequence[str]) -> list[str]:
    """The words before `--`: what follows is for others."""
    words = list(args)
    return words[: words.index("--")] if "--" in words else words
