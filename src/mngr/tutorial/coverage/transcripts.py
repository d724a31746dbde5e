"""What tests ran, from the transcripts that the test framework left."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable

from mngr.base.model import Record
from mngr.tutorial.blocks import Problem, block_id

_MOST_BYTES = 50_000_000  # of one transcript


class Ran(Record):
    """One test of a run."""

    test: str  # its node id, without what it was parametrised by
    blocks: list[str]  # the ids of those it says it is about
    commands: list[str]
    unhappy: bool  # something ended with another exit code than 0


class Run(Record):
    """The newest run."""

    name: str | None
    tests: list[Ran]
    problems: list[Problem]


def read_run(artifacts: str, shown: Callable[[str], str]) -> Run:
    """The newest of the runs in a directory; nameless and empty when there is none."""
    runs = [os.path.join(artifacts, name) for name in _folders(artifacts)]
    if not runs:
        return Run(name=None, tests=[], problems=[])
    newest = max(runs, key=lambda path: (os.stat(path).st_mtime, path))
    tests: list[Ran] = []
    problems: list[Problem] = []
    for name in sorted(_folders(newest)):
        place = os.path.join(newest, name)
        path = os.path.join(place, "transcript.txt")
        if not os.path.exists(path):
            continue
        try:
            about = _about(os.path.join(place, "meta.json"))
            tests.append(_ran(path, about, name))
        except (OSError, ValueError) as error:
            said = getattr(error, "strerror", None) or str(error)
            problems.append(Problem(path=shown(place), line=1, message=f"cannot be read: {said}"))
    return Run(name=os.path.basename(newest), tests=tests, problems=problems)


def _folders(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _about(path: str) -> dict[str, object]:
    with open(path, encoding="utf-8") as file:
        about = json.load(file)
    if not isinstance(about, dict):
        raise ValueError("meta.json is no object")
    return about


def _ran(path: str, about: dict[str, object], name: str) -> Ran:
    cited = about.get("blocks")
    blocks = [str(block) for block in cited] if isinstance(cited, list) else []
    commands: list[str] = []
    unhappy, joins = False, False
    with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
        for line in file.read(_MOST_BYTES).split("\n"):
            if line.startswith("$ "):
                commands[-1:] = [f"{commands[-1]}\n{line[2:]}"] if joins else [*commands[-1:], line[2:]]
            elif re.match(r"\? -?\d", line):
                unhappy = unhappy or not re.match(r"\? 0\b", line)
            joins = line.startswith("$ ")  # a command of several lines has them one after the other
    return Ran(
        test=re.sub(r"\[.*\]$", "", str(about.get("test") or name)),
        blocks=[block if re.fullmatch(r"[0-9a-f]{12}", block) else block_id(block) for block in blocks],
        commands=commands,
        unhappy=unhappy,
    )
