"""Finds the options in a command's words, and the words to remove with each option."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

WordRange = tuple[int, int]  # first word and the word after the last


_USAGE_WORDS = ("--help", "-h", "help")


def is_usage_request(args: Sequence[str]) -> bool:
    """True when a command asks for the usage text, which is what a stub would print."""
    return any(word in _USAGE_WORDS for word in _list_own_words(args))


def list_command_words(args: Sequence[str]) -> list[str]:
    """Return the words before the first option, which are mostly subcommands."""
    command_words: list[str] = []
    for word in _list_own_words(args):
        if word.startswith("-"):
            break
        command_words.append(word)
    return command_words


def propose_option_removals(
    args: Sequence[str], takes_value: Callable[[str], bool | None]
) -> list[tuple[str, list[WordRange]]]:
    """Return each option and the words to remove: two proposals when it is unknown whether it takes a value."""
    words = _list_own_words(args)
    options: list[tuple[str, list[WordRange]]] = []
    index = 0
    while index < len(words):
        word = words[index]
        width = 1
        if word.startswith("-") and word != "-" and not word[1:2].isdigit():
            flag, equals, _ = word.partition("=")
            alone, pair = (index, index + 1), (index, index + 2)
            has_next = (
                not equals and index + 1 < len(words) and (words[index + 1] == "-" or words[index + 1][:1] != "-")
            )
            takes = takes_value(flag) if has_next else False
            if takes is None:  # Nobody knows whether the next word belongs to the option.
                ranges = [pair, alone]
            else:
                ranges = [pair] if takes else [alone]
            options.append((flag, ranges))
            width = 2 if takes else 1
        index += width
    return options


def can_take_value(flag: str, usage: str) -> bool | None:
    """True or False as the help text says whether an option takes a value; None when it does not say."""
    name = rf"(?<![\w-]){re.escape(flag)}(?![\w-])(?:, *-[\w-]+)*"
    value = r"[ =][\[\]-]*(?:<[^>\n]+>|\{|[A-Z][A-Z0-9_]*\b|[a-z]+(?= {2,}|\n))"
    if re.search(name + value, usage):
        return True
    return False if re.search(name, usage) else None


def _list_own_words(args: Sequence[str]) -> list[str]:
    """Return the words before `--`."""
    words = list(args)
    return words[: words.index("--")] if "--" in words else words
