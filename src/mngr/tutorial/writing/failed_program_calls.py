"""Finds the mistakes an agent made with a program, which show where its interface misleads."""

from __future__ import annotations

import itertools
import re

from mngr.base.model import Struct
from mngr.base.untrusted_json import parse_json
from mngr.kinds.transcript_entry import TranscriptEntry
from mngr.tutorial.coverage.shell_words import list_calls

# How agent programs show an exit code, on its own line. Some show it only after a failure.
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
# For agents that call tools from code.
_CALL_IN_CODE = re.compile(r'exec_command\(\{\s*"?cmd"?:\s*("(?:[^"\\\n]|\\["\\/bfnrt])*")')
_MAX_MESSAGE_CHARACTERS = 200  # characters of the program's error message
_MAX_COMMANDS = 50  # commands that are listed at most


class CommandMistakes(Struct):
    """One command of the program, and how often the agent went wrong with it."""

    command: str
    calls: int
    failures: int
    retries: int  # calls of the same command after one that failed
    unknown: list[str]  # options that do not exist
    after: list[str]  # commands that made the same, failed call work
    messages: list[str]  # the program's error messages, without duplicates


class _ProgramCall(Struct):
    """One call of the program."""

    command: str
    words: list[str]
    failed: bool
    worked: bool  # neither is true when a neighbouring call failed, because this one may not have run
    message: str  # the error line of a failed call


def list_mistakes(entries: list[TranscriptEntry], program: list[str]) -> list[CommandMistakes]:
    """Return the commands that failed in the conversation, most failures first."""
    calls = [call for entry in entries for call in _parse_calls(entry, program)]
    mistakes = [_summarize_calls(name, calls) for name in dict.fromkeys(call.command for call in calls if call.failed)]
    return sorted(mistakes, key=lambda entry: (-entry.failures, entry.command))[:_MAX_COMMANDS]


def _summarize_calls(name: str, calls: list[_ProgramCall]) -> CommandMistakes:
    own_calls = [(index, call) for index, call in enumerate(calls) if call.command == name]
    failed = [(index, call) for index, call in own_calls if call.failed]
    unknown = [flag for _, call in failed for flag in _list_unknown_flags(call)]
    after = [
        command
        for index, call in failed
        if not _list_unknown_flags(call)
        for command in _list_needed_first(calls, index)
    ]
    return CommandMistakes(
        command=name,
        calls=len(own_calls),
        failures=len(failed),
        retries=sum(before.failed for (_, before), _ in itertools.pairwise(own_calls)),
        unknown=list(dict.fromkeys(unknown)),
        after=list(dict.fromkeys(after)),
        messages=list(dict.fromkeys(call.message for _, call in failed if call.message)),
    )


def _list_needed_first(calls: list[_ProgramCall], index: int) -> list[str]:
    """Return other commands that worked between a failed call and the same call when it worked."""
    between: list[str] = []
    for call in calls[index + 1 :]:
        if call.words == calls[index].words and call.worked:
            return between
        if call.command != calls[index].command and call.worked and not _is_help_request(call.words):
            between.append(call.command)
    return []


def _parse_calls(entry: TranscriptEntry, program: list[str]) -> list[_ProgramCall]:
    """Return the program's calls in one shell command of the agent.

    If one of several calls failed, the program's output decides which one, where possible.
    """
    command = _find_shell_command(entry)
    if command is None:
        return []
    output = entry.output or ""
    calls = list_calls(command, program)
    blamed = _choose_failed_calls(calls, output, program[-1]) if _has_failed(calls, output) else []
    message = _find_error_line(output)
    return [
        _ProgramCall(
            command=" ".join([program[-1], *_get_command_words(words)]),
            words=words,
            failed=any(words is other for other in blamed),
            worked=not blamed,
            message=message,
        )
        for words in calls
    ]


def _has_failed(calls: list[list[str]], output: str) -> bool:
    codes = _EXIT_CODE.findall(output)
    if codes:
        return bool(str(codes[0]).strip("0"))
    if _UNKNOWN_OPTION.search(output):
        return True
    return bool(_FAILURE_TEXT.search(output)) and not all(_is_help_request(words) for words in calls)


def _choose_failed_calls(calls: list[list[str]], output: str, name: str) -> list[list[str]]:
    """Return the calls with an unknown option, else those the program named, else all but the help requests."""
    with_unknown_flag = [words for words in calls if any(_is_unknown_flag(flag, output) for flag in _list_flags(words))]
    named = [
        words for words in calls if _get_command_words(words) and f"{name} {_get_command_words(words)[0]}:" in output
    ]
    not_help = [words for words in calls if not _is_help_request(words)]
    return with_unknown_flag or named or not_help or calls


def _list_unknown_flags(call: _ProgramCall) -> list[str]:
    return [flag for flag in _list_flags(call.words) if _is_unknown_flag(flag, call.message)]


def _list_flags(words: list[str]) -> list[str]:
    return [word.split("=", 1)[0] for word in words if word.startswith("-") and word.strip("-")]


def _is_unknown_flag(flag: str, message: str) -> bool:
    """True when the program does not know a flag. Some programs name it without its dashes."""
    name = re.compile(rf"(?<![\w-])-{{0,2}}{re.escape(flag.lstrip('-'))}(?![\w-])")
    return any(name.search(match["rest"]) for match in _UNKNOWN_OPTION.finditer(message))


def _is_help_request(words: list[str]) -> bool:
    """True when the call only asks for help. Help output can look like an error."""
    return not words or "--help" in words or "-h" in words or words[0] == "help"


def _find_shell_command(entry: TranscriptEntry) -> str | None:
    """Return the shell command in a tool call, whatever the agent's program calls its argument."""
    tool_input = entry.input
    if entry.role != "tool" or not isinstance(tool_input, dict):
        return None
    for key in ("command", "cmd", "script"):
        value = tool_input.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            return str(value[-1]) if value[:2] in (["bash", "-lc"], ["bash", "-c"], ["sh", "-c"]) else " ".join(value)
    match = _CALL_IN_CODE.search(str(tool_input.get("input") or ""))
    try:
        return str(parse_json(match[1])) if match else None
    except ValueError:  # for example a tab in the text
        return None


def _get_command_words(words: list[str]) -> list[str]:
    """Return the first word if it is a command, otherwise an empty list."""
    command_words = []
    for word in words[:2]:
        if not re.fullmatch(r"[a-z][a-z0-9-]*", word):
            break
        command_words.append(word)
    return command_words[:1]


def _find_error_line(output: str) -> str:
    """Return the first line that looks like an error, or else the last line."""
    output = output.partition("\nOutput:\n")[2] or output  # The text before it is not from the program.
    rows = [row.strip() for row in output.splitlines() if row.strip() and not _EXIT_CODE.match(row.strip())]
    error_rows = [row for row in rows if _UNKNOWN_OPTION.search(row)] or [
        row for row in rows if _FAILURE_TEXT.search(row) and not row.lower().startswith("usage")
    ]
    return (error_rows or rows or [""])[-1 if not error_rows else 0][:_MAX_MESSAGE_CHARACTERS]
