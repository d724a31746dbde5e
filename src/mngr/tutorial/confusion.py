"""What an agent got wrong while it learnt a program: which part of the interface misleads."""

from __future__ import annotations

import re

from mngr.model import Record
from mngr.tutorial.shell_words import calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FAILED = re.compile(
    r"exit(?:ed)?(?: with)?(?: code| status)?[:= ]+[1-9]\d*|^(?:usage|error):|unknown (?:option|command|argument|flag)|unrecognized"
    r"|no such (?:option|command|subcommand)|invalid (?:choice|option)|unexpected argument|command not found",
    re.IGNORECASE | re.MULTILINE,
)
_OPTION = re.compile(
    r"(?:unknown|unrecognized|no such|invalid|unexpected)\s+(?:option|argument|flag)s?:?\s*['\"`]?(--?[\w-]+)",
    re.IGNORECASE,
)
_SAID = 200  # characters of what the program said
_MOST = 50  # commands


class Confusion(Record):
    """One command of the program, and how often the agent went wrong with it."""

    command: str
    calls: int
    failures: int
    retries: int  # calls of the same command after one that failed
    unknown: list[str]  # options that it does not have
    said: list[str]  # what the program answered, each once


def read(rows: list[dict[str, Any]], program: list[str]) -> list[Confusion]:
    """By command, those that misled most first; what went well is left out. `rows` are a conversation."""
    seen: dict[str, dict[str, Any]] = {}
    for row in rows:
        command = _command(row)
        if command is None:
            continue
        output = str(row.get("output") or "")
        failed = bool(_FAILED.search(output))
        for words in calls(command, program):
            name = " ".join([program[-1], *_verb(words)])
            one = seen.setdefault(
                name, {"calls": 0, "failures": 0, "retries": 0, "unknown": [], "said": [], "was": False}
            )
            one["calls"] += 1
            one["retries"] += one["was"]
            one["was"] = failed
            if failed:
                one["failures"] += 1
                one["unknown"] += [
                    option for option in _OPTION.findall(output) if option not in one["unknown"]
                ]
                said = _first(output)
                if said and said not in one["said"]:
                    one["said"].append(said)
    found = [
        Confusion(command=name, **{key: value for key, value in one.items() if key != "was"})
        for name, one in seen.items()
        if one["failures"]
    ]
    return sorted(found, key=lambda one: (-one.failures, one.command))[:_MOST]


def _command(row: dict[str, Any]) -> str | None:
    """The line of shell in a tool's call, whatever the program calls that."""
    given = row.get("input")
    if row.get("role") != "tool" or not isinstance(given, dict):
        return None
    for key in ("command", "cmd", "script"):
        value = given.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            return (
                str(value[-1])
                if value[:2] in (["bash", "-lc"], ["bash", "-c"], ["sh", "-c"])
                else " ".join(value)
            )
    return None


def _verb(words: list[str]) -> list[str]:
    """The first words that are no options: the command and its subcommand."""
    plain = []
    for word in words[:2]:
        if not re.fullmatch(r"[a-z][a-z0-9-]*", word):
            break
        plain.append(word)
    return plain[:1]


def _first(output: str) -> str:
    rows = [row.strip() for row in output.splitlines() if _FAILED.search(row)] or [output.strip()]
    return rows[-1][:_SAID]
