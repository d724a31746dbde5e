"""What tests ran, from the transcripts that the test framework left."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable

from mngr.base.model import Struct
from mngr.tutorial.blocks import ReadProblem, compute_block_id

_MAX_TRANSCRIPT_BYTES = 50_000_000  # of one transcript


class RecordedTest(Struct):
    """One test of a run."""

    test: str  # its node id, without what it was parametrised by
    blocks: list[str]  # the ids of those it says it is about
    commands: list[str]
    has_failure: bool  # something ended with another exit code than 0


class TranscriptRun(Struct):
    """The newest run."""

    name: str | None
    tests: list[RecordedTest]
    problems: list[ReadProblem]


def read_run(artifacts: str, shown: Callable[[str], str]) -> TranscriptRun:
    """The newest of the runs in a directory; nameless and empty when there is none."""
    runs = [os.path.join(artifacts, name) for name in _list_folders(artifacts)]
    if not runs:
        return TranscriptRun(name=None, tests=[], problems=[])
    newest = max(runs, key=lambda path: (os.stat(path).st_mtime, path))
    tests: list[RecordedTest] = []
    problems: list[ReadProblem] = []
    for name in sorted(_list_folders(newest)):
        place = os.path.join(newest, name)
        path = os.path.join(place, "transcript.txt")
        if not os.path.exists(path):
            continue
        try:
            about = _read_meta(os.path.join(place, "meta.json"))
            tests.append(_read_transcript(path, about, name))
        except (OSError, ValueError) as error:
            said = getattr(error, "strerror", None) or str(error)
            problems.append(ReadProblem(path=shown(place), line=1, message=f"cannot be read: {said}"))
    return TranscriptRun(name=os.path.basename(newest), tests=tests, problems=problems)


def _list_folders(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _read_meta(path: str) -> dict[str, object]:
    with open(path, encoding="utf-8") as file:
        about = json.load(file)
    if not isinstance(about, dict):
        raise ValueError("meta.json is no object")
    return about


def _read_transcript(path: str, about: dict[str, object], name: str) -> RecordedTest:
    cited = about.get("blocks")
    blocks = [str(block) for block in cited] if isinstance(cited, list) else []
    commands: list[str] = []
    unhappy, joins = False, False
    with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
        for line in file.read(_MAX_TRANSCRIPT_BYTES).split("\n"):
            if line.startswith("$ "):
                commands[-1:] = [f"{commands[-1]}\n{line[2:]}"] if joins else [*commands[-1:], line[2:]]
            elif re.match(r"\? -?\d", line):
                unhappy = unhappy or not re.match(r"\? 0\b", line)
            joins = line.startswith("$ ")  # a command of several lines has them one after the other
    return RecordedTest(
        test=re.sub(r"\[.*\]$", "", str(about.get("test") or name)),
        blocks=[block if re.fullmatch(r"[0-9a-f]{12}", block) else compute_block_id(block) for block in blocks],
        commands=commands,
        has_failure=unhappy,
    )
