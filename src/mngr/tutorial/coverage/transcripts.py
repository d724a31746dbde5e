"""Reads which commands the tests ran, from the transcripts of mngr.e2e."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from mngr.base.model import Struct
from mngr.base.paths import open_plain_file
from mngr.base.untrusted_json import parse_json
from mngr.tutorial.blocks import ReadProblem, compute_block_id

_MAX_META_BYTES = 2_000_000  # bytes that are read of what a test says about itself
_MAX_TRANSCRIPT_BYTES = 50_000_000  # bytes that are read of one transcript


class RecordedTest(Struct):
    """One test of a run."""

    test: str  # its node id, without parameters
    blocks: list[str]  # the ids of the blocks that it cites
    commands: list[str]
    has_failure: bool  # a command ended with an exit code other than 0


class TranscriptRun(Struct):
    """The tests of the newest run."""

    name: str | None
    tests: list[RecordedTest]
    problems: list[ReadProblem]


def read_run(artifacts: str, to_display_path: Callable[[str], str]) -> TranscriptRun:
    """Return the newest run in a directory, or an empty run without a name when there is none."""
    runs = [os.path.join(artifacts, name) for name in _list_folders(artifacts)]
    if not runs:
        return TranscriptRun(name=None, tests=[], problems=[])
    newest = max(runs, key=lambda path: (os.stat(path).st_mtime, path))
    tests: list[RecordedTest] = []
    problems: list[ReadProblem] = []
    for name in sorted(_list_folders(newest)):
        test_dir = os.path.join(newest, name)
        path = os.path.join(test_dir, "transcript.txt")
        if not os.path.exists(path):
            continue
        try:
            meta = _read_meta(os.path.join(test_dir, "meta.json"))
            tests.append(_read_transcript(path, meta, name))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            problems.append(ReadProblem(path=to_display_path(test_dir), line=1, message=f"cannot be read: {reason}"))
    return TranscriptRun(name=os.path.basename(newest), tests=tests, problems=problems)


def _list_folders(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _read_meta(path: str) -> dict[str, object]:
    with open_plain_file(path) as file:
        meta = parse_json(file.read(_MAX_META_BYTES))
    if not isinstance(meta, dict):
        raise ValueError("meta.json is not a JSON object")
    return meta


def _read_transcript(path: str, meta: dict[str, object], name: str) -> RecordedTest:
    cited = meta.get("blocks")
    blocks = [str(block) for block in cited] if isinstance(cited, list) else []
    commands: list[str] = []
    has_failure, is_continued = False, False
    with open_plain_file(path) as file:
        for line in file.read(_MAX_TRANSCRIPT_BYTES).decode("utf-8", "replace").split("\n"):
            if line.startswith("$ "):
                commands[-1:] = [f"{commands[-1]}\n{line[2:]}"] if is_continued else [*commands[-1:], line[2:]]
            elif re.match(r"\? -?\d", line):
                has_failure = has_failure or not re.match(r"\? 0\b", line)
            is_continued = line.startswith("$ ")  # A command of several lines has consecutive `$ ` lines.
    return RecordedTest(
        test=re.sub(r"\[.*\]$", "", str(meta.get("test") or name)),
        blocks=[block if re.fullmatch(r"[0-9a-f]{12}", block) else compute_block_id(block) for block in blocks],
        commands=commands,
        has_failure=has_failure,
    )
