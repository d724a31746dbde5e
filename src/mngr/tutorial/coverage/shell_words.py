"""Finds the calls of a program in shell code, with their words."""

from __future__ import annotations

import os
import re
import shlex

_SUBSTITUTION = re.compile(r"\$\(([^()]*)\)|`([^`]*)`")
_OPERATORS = set("();<>|&")


def list_calls(text: str, program: list[str]) -> list[list[str]]:
    """Return the words after each call of `program` in a command, including calls in quoted substitutions."""
    calls: list[list[str]] = []
    for words in _split_commands(text):
        for index in range(len(words) - len(program) + 1):
            if _is_call(words[index : index + len(program)], program):
                calls.append(words[index + len(program) :])
                break
    quoted = re.findall(r'"((?:[^"\\]|\\.)*)"', text, re.DOTALL)
    for match in _SUBSTITUTION.finditer("\n".join(quoted)):
        calls += list_calls(match[1] or match[2] or "", program)
    return calls


def _is_call(words: list[str], program: list[str]) -> bool:
    return os.path.basename(words[0]) == os.path.basename(program[0]) and words[1:] == program[1:]


def _split_commands(text: str) -> list[list[str]]:
    """Return the words of each simple command. If shlex cannot parse the text, split it line by line."""
    try:
        return _split_words(text)
    except ValueError:
        pass
    commands: list[list[str]] = []
    for line in text.split("\n"):
        try:
            commands += _split_words(line)
        except ValueError:
            commands += [part.split() for part in re.split(r"[;|&()`]+", line)]
    return commands


def _split_words(text: str) -> list[list[str]]:
    one_line = text.replace("\\\n", " ").replace("\n", " ; ").replace("`", " ; ")
    lexer = shlex.shlex(one_line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    commands: list[list[str]] = [[]]
    is_redirected = False
    for word in lexer:
        if set(word) <= _OPERATORS and word:
            is_redirected = bool(set(word) <= set("<>&")) and word not in ("&", "&&")
            if not is_redirected:
                commands.append([])
            elif commands[-1][-1:] in (["1"], ["2"]):  # the number of the stream, as in 2>file
                commands[-1].pop()
        elif is_redirected:
            is_redirected = False
        else:
            commands[-1].append(word)
    return commands
