"""Where a text of shell calls a program, and with which words."""

from __future__ import annotations

import os
import re
import shlex

_SUBSTITUTION = re.compile(r"\$\(([^()]*)\)|`([^`]*)`")
_OPERATORS = set("();<>|&")


def list_calls(text: str, program: list[str]) -> list[list[str]]:
    """The words after each call of `program` in a command, those in quoted substitutions included."""
    found: list[list[str]] = []
    for words in _split_commands(text):
        for at in range(len(words) - len(program) + 1):
            if _is_call(words[at : at + len(program)], program):
                found.append(words[at + len(program) :])
                break
    quoted = re.findall(r'"((?:[^"\\]|\\.)*)"', text, re.DOTALL)
    for match in _SUBSTITUTION.finditer("\n".join(quoted)):
        found += list_calls(match[1] or match[2] or "", program)
    return found


def _is_call(words: list[str], program: list[str]) -> bool:
    return os.path.basename(words[0]) == os.path.basename(program[0]) and words[1:] == program[1:]


def _split_commands(text: str) -> list[list[str]]:
    """The words of each simple command; what shlex cannot read is taken line by line."""
    try:
        return _split_words(text)
    except ValueError:
        pass
    found: list[list[str]] = []
    for line in text.split("\n"):
        try:
            found += _split_words(line)
        except ValueError:
            found += [part.split() for part in re.split(r"[;|&()`]+", line)]
    return found


def _split_words(text: str) -> list[list[str]]:
    flat = text.replace("\\\n", " ").replace("\n", " ; ").replace("`", " ; ")
    lexer = shlex.shlex(flat, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    found: list[list[str]] = [[]]
    redirected = False
    for word in lexer:
        if set(word) <= _OPERATORS and word:
            redirected = bool(set(word) <= set("<>&")) and word not in ("&", "&&")
            if not redirected:
                found.append([])
            elif found[-1][-1:] in (["1"], ["2"]):  # the stream, as in 2>file
                found[-1].pop()
        elif redirected:
            redirected = False
        else:
            found[-1].append(word)
    return found
