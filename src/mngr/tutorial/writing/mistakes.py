"""What an agent got wrong while it learnt a program: which part of the interface misleads."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

from mngr.base.model import Struct
from mngr.tutorial.coverage.shell_words import list_calls

# How programs of agents tell how a command ended, on a line of its own; some tell it only when it failed.
_EXIT_CODE = re.compile(
    r"^(?:error: |\W{0,2})?(?:process |command )?exit(?:ed)?(?: with)?(?: code| status)?[:= ]+(\d+)\W*$",
    re.IGNORECASE | re.MULTILINE,
)
_FAILURE_TEXT = re.compile(
    r"^(?:usage|error|fatal):|(?:unknown|no such|invalid) (?:sub)?command|invalid choice|command not found"
    r"|missing (?:option|argument|parameter)|is not a \S+ command",
    re.IGNORECASE | re.MULTILINE,
)
_UNKNOWN_OPTION = re.compile(
    r"(?:unknown|unrecogni[sz]ed|no such|invalid|unexpected|illegal|bad)\s+(?:shorthand )?(?:option|argument|flag|switch|parameter)s?(?P<rest>.*)",
    re.IGNORECASE,
)
_CALL_IN_CODE = re.compile(
    r'exec_command\(\{\s*"?cmd"?:\s*("(?:[^"\\\n]|\\["\\/bfnrt])*")'
)  # where tools are called by code
_MAX_MESSAGE_CHARACTERS = 200  # characters of what the program said
_MAX_COMMANDS = 50  # commands


class CommandMistakes(Struct):
    """One command of the program, and how often the agent went wrong with it."""

    command: str
    calls: int
    failures: int
    retries: int  # calls of the same command after one that failed
    unknown: list[str]  # options that it does not have
    after: list[str]  # commands after which the same call worked that had failed before them
    said: list[str]  # what the program answered, each once


class _ProgramCall(Struct):
    """One call of the program."""

    command: str
    words: list[str]
    failed: bool
    worked: bool  # neither, when another call beside it failed: it may not have been made
    message: str  # when it failed


def list_mistakes(rows: list[dict[str, Any]], program: list[str]) -> list[CommandMistakes]:
    """By command, those that misled most first; what went well is left out. `rows` are a conversation."""
    made = [call for row in rows for call in _parse_calls(row, program)]
    found = [_summarize_calls(name, made) for name in dict.fromkeys(call.command for call in made if call.failed)]
    return sorted(found, key=lambda one: (-one.failures, one.command))[:_MAX_COMMANDS]


def _summarize_calls(name: str, made: list[_ProgramCall]) -> CommandMistakes:
    mine = [(at, call) for at, call in enumerate(made) if call.command == name]
    failed = [(at, call) for at, call in mine if call.failed]
    unknown = [flag for _, call in failed for flag in _list_unknown_flags(call)]
    after = [
        command for at, call in failed if not _list_unknown_flags(call) for command in _list_needed_first(made, at)
    ]
    return CommandMistakes(
        command=name,
        calls=len(mine),
        failures=len(failed),
        retries=sum(before.failed for (_, before), _ in itertools.pairwise(mine)),
        unknown=list(dict.fromkeys(unknown)),
        after=list(dict.fromkeys(after)),
        said=list(dict.fromkeys(call.message for _, call in failed if call.message)),
    )


def _list_needed_first(made: list[_ProgramCall], at: int) -> list[str]:
    """Other commands that went well between a call that failed and the same call when it worked."""
    between: list[str] = []
    for call in made[at + 1 :]:
        if call.words == made[at].words and call.worked:
            return between
        if call.command != made[at].command and call.worked and not _is_help_request(call.words):
            between.append(call.command)
    return []


def _parse_calls(row: dict[str, Any], program: list[str]) -> list[_ProgramCall]:
    """The calls in one of the agent's commands. Which of several failed is told by what the program said, if at all."""
    command = _find_shell_command(row)
    if command is None:
        return []
    output = str(row.get("output") or "")
    found = list_calls(command, program)
    blamed = _choose_failed_calls(found, output, program[-1]) if _has_failed(found, output) else []
    said = _find_error_line(output)
    return [
        _ProgramCall(
            command=" ".join([program[-1], *_get_command_words(words)]),
            words=words,
            failed=any(words is other for other in blamed),
            worked=not blamed,
            message=said,
        )
        for words in found
    ]


def _has_failed(found: list[list[str]], output: str) -> bool:
    codes = _EXIT_CODE.findall(output)
    if codes:
        return bool(str(codes[0]).strip("0"))
    if _UNKNOWN_OPTION.search(output):
        return True
    return bool(_FAILURE_TEXT.search(output)) and not all(_is_help_request(words) for words in found)


def _choose_failed_calls(found: list[list[str]], output: str, name: str) -> list[list[str]]:
    """Those that have the option which is not known, else those that the program named, else all that were no questions."""
    having = [words for words in found if any(_is_unknown_flag(flag, output) for flag in _list_flags(words))]
    named = [
        words for words in found if _get_command_words(words) and f"{name} {_get_command_words(words)[0]}:" in output
    ]
    asked = [words for words in found if not _is_help_request(words)]
    return having or named or asked or found


def _list_unknown_flags(call: _ProgramCall) -> list[str]:
    return [flag for flag in _list_flags(call.words) if _is_unknown_flag(flag, call.message)]


def _list_flags(words: list[str]) -> list[str]:
    return [word.split("=", 1)[0] for word in words if word.startswith("-") and word.strip("-")]


def _is_unknown_flag(flag: str, said: str) -> bool:
    """Whether the program does not know a flag; some name it without its dashes."""
    name = re.compile(rf"(?<![\w-])-{{0,2}}{re.escape(flag.lstrip('-'))}(?![\w-])")
    return any(name.search(match["rest"]) for match in _UNKNOWN_OPTION.finditer(said))


def _is_help_request(words: list[str]) -> bool:
    """Whether it only asks for help, which looks as if something was wrong."""
    return not words or "--help" in words or "-h" in words or words[0] == "help"


def _find_shell_command(row: dict[str, Any]) -> str | None:
    """The line of shell in a tool's call, whatever the program calls that."""
    given = row.get("input")
    if row.get("role") != "tool" or not isinstance(given, dict):
        return None
    for key in ("command", "cmd", "script"):
        value = given.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            return str(value[-1]) if value[:2] in (["bash", "-lc"], ["bash", "-c"], ["sh", "-c"]) else " ".join(value)
    within = _CALL_IN_CODE.search(str(given.get("input") or ""))
    return str(json.loads(within[1])) if within else None


def _get_command_words(words: list[str]) -> list[str]:
    """The first words that are no options: the command and its subcommand."""
    plain = []
    for word in words[:2]:
        if not re.fullmatch(r"[a-z][a-z0-9-]*", word):
            break
        plain.append(word)
    return plain[:1]


def _find_error_line(output: str) -> str:
    """The line that says what was wrong: one that looks like it, else the last."""
    output = output.partition("\nOutput:\n")[2] or output  # what stands before that is not the program's
    rows = [row.strip() for row in output.splitlines() if row.strip() and not _EXIT_CODE.match(row.strip())]
    telling = [row for row in rows if _UNKNOWN_OPTION.search(row)] or [
        row for row in rows if _FAILURE_TEXT.search(row) and not row.lower().startswith("usage")
    ]
    return (telling or rows or [""])[-1 if not telling else 0][:_MAX_MESSAGE_CHARACTERS]
