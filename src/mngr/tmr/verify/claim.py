"""Reads an agent's claim, `result.json`. The file is untrusted; each problem is a sentence for its author."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import NoReturn

from mngr.base.errors import suggest_closest
from mngr.base.json_structs import decode
from mngr.base.model import Struct
from mngr.base.paths import SpecialFile, open_plain_file
from mngr.base.untrusted_json import as_list, find_int, get_objects, get_text

OUTCOMES = ("fixed", "improved", "unchanged", "blocked", "failed")
VERDICTS = ("pass", "fail", "flaky")
CHANGE_KINDS = ("FIX_IMPL", "FIX_TEST", "IMPROVE_TEST", "ADD_TEST", "FIX_TUTORIAL", "FIX_DOC")
ESCALATION_KINDS = ("BLOCKER", "SHARED_CAUSE", "UNCAUGHT_BUG", "AMBIGUOUS", "HARNESS_DEFECT", "DUPLICATE")
MAX_BYTES = 1 << 20
_TITLE, _TEXT, _ROWS = 300, 20_000, 100  # characters of one line and of a longer text, entries of a list
_MAX_PROBLEMS = 8  # problems that are listed at once
_COMMIT_PATTERN = re.compile(r"[0-9a-f]{7,64}")
_SURROGATES = re.compile("[\ud800-\udfff]")
_REQUIRED_FIELDS = ("v", "task", "outcome", "before", "after", "summary")
_LIST_FIELDS = ("changes", "escalations", "runs")


class ClaimedChange(Struct):
    """A claimed change, with its commits of one kind."""

    kind: str
    summary: str = ""
    commits: tuple[str, ...] = ()


class Location(Struct):
    """A place in the project that an escalation is about."""

    path: str
    line: int | None = None


class Escalation(Struct):
    """A problem that another person or agent must handle, whatever the outcome."""

    kind: str
    title: str
    detail: str = ""
    locations: tuple[Location, ...] = ()


class ClaimedRun(Struct):
    """A run of the test that the agent points out."""

    name: str
    description: str = ""


class AgentClaim(Struct):
    """The agent's claim. Nothing in it is verified."""

    v: int = 1
    task: str
    outcome: str
    before: str
    after: str
    summary: str
    changes: tuple[ClaimedChange, ...] = ()
    escalations: tuple[Escalation, ...] = ()
    runs: tuple[ClaimedRun, ...] = ()


def load_claim(claim: Mapping[str, object]) -> AgentClaim:
    """Return a claim that the journal holds, whatever the agent wrote. A value of another type counts as missing."""
    return AgentClaim(
        task=get_text(claim, "task"),
        outcome=get_text(claim, "outcome"),
        before=get_text(claim, "before"),
        after=get_text(claim, "after"),
        summary=get_text(claim, "summary"),
        changes=tuple(_load_change(row) for row in get_objects(claim, "changes")),
        escalations=tuple(_load_escalation(row) for row in get_objects(claim, "escalations")),
        runs=tuple(
            ClaimedRun(name=get_text(row, "name"), description=get_text(row, "description"))
            for row in get_objects(claim, "runs")
        ),
    )


def _load_change(row: Mapping[str, object]) -> ClaimedChange:
    commits = tuple(str(commit) for commit in as_list(row.get("commits")))
    return ClaimedChange(kind=get_text(row, "kind"), summary=get_text(row, "summary"), commits=commits)


def _load_escalation(row: Mapping[str, object]) -> Escalation:
    locations = tuple(
        Location(path=get_text(location, "path"), line=find_int(location, "line"))
        for location in get_objects(row, "locations")
    )
    return Escalation(
        kind=get_text(row, "kind"), title=get_text(row, "title"), detail=get_text(row, "detail"), locations=locations
    )


def list_claimed_changes(claim: Mapping[str, object]) -> list[ClaimedChange]:
    """Return the changes in a claim that the journal holds, without those that are not in the right form."""
    changes: list[ClaimedChange] = []
    for row in get_objects(claim, "changes"):
        with contextlib.suppress(ValueError):
            changes.append(decode(ClaimedChange, row))
    return changes


def read_claim(path: str, task: str) -> AgentClaim | list[str]:
    """Return the claim about `task` in the file, or its problems as sentences for the author. Never raises."""
    try:
        text = _read_file(path)
    except OSError as error:
        return [f"mngr cannot read result.json: {error.strerror}."]
    except ValueError as error:
        return [str(error)]
    return parse_claim(text, task)


def parse_claim(text: str, task: str) -> AgentClaim | list[str]:
    """Return the claim about `task` in the text, or its problems as sentences for the author."""
    try:
        data = json.loads(text, object_pairs_hook=_reject_duplicate_keys, parse_constant=_reject_constant)
    except RecursionError:
        return ["result.json is nested too deeply."]
    except ValueError as error:
        detail = str(error) if len(str(error)) < 200 else "a number in it is too long"
        return [f"result.json is not JSON: {detail}. Write it with a JSON library and rename it into place."]
    reader = _ClaimReader()
    claim = reader.read_claim(data, task)
    if not reader.problems:
        return claim
    remaining = len(reader.problems) - _MAX_PROBLEMS
    return reader.problems[:_MAX_PROBLEMS] + ([f"Further problems of this kind: {remaining}."] if remaining > 0 else [])


def _read_file(path: str) -> str:
    """Return the text of a regular file. Raise ValueError with the reason when that is impossible."""
    try:
        with open_plain_file(path) as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise ValueError("result.json does not exist.") from None
    except SpecialFile:
        raise ValueError("result.json is not a regular file.") from None
    except OSError:
        if os.path.islink(path):
            raise ValueError("result.json is a symbolic link; it must be a regular file.") from None
        raise
    if len(data) > MAX_BYTES:
        raise ValueError("result.json is larger than 1 MB. Shorten its texts and put long content into separate files.")
    if not data.strip():
        raise ValueError("result.json is empty.")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"result.json is not UTF-8: byte {error.start + 1} is invalid.") from None


class _ClaimReader:
    """Reads a claim and collects all problems."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def read_claim(self, data: object, task: str) -> AgentClaim:
        """Return the claim, which is valid only if there are no problems."""
        row = self._read_object("result.json", data, _REQUIRED_FIELDS, _LIST_FIELDS)
        if row is None:
            return AgentClaim(task=task, outcome="", before="", after="", summary="")
        if "v" in row and (row["v"] != 1 or isinstance(row["v"], bool)):
            self.problems.append(f'"v" is {_format_value(row["v"])}; it must be 1.')
        if "task" in row and row["task"] != task:
            self.problems.append(f'"task" is {_format_value(row["task"])}, but this task is {_format_value(task)}.')
        claim = AgentClaim(
            task=task,
            outcome=self._read_choice("outcome", row, OUTCOMES),
            before=self._read_choice("before", row, VERDICTS),
            after=self._read_choice("after", row, VERDICTS),
            summary=self._read_text("summary", row, "summary", _TEXT),
            changes=tuple(self._read_change(*entry) for entry in self._list_entries("changes", row, "changes")),
            escalations=tuple(
                self._read_escalation(*entry) for entry in self._list_entries("escalations", row, "escalations")
            ),
            runs=tuple(self._read_run(*entry) for entry in self._list_entries("runs", row, "runs")),
        )
        if not self.problems:
            self._check_consistency(claim)
        return claim

    def _check_consistency(self, claim: AgentClaim) -> None:
        """Add a problem for each pair of statements that cannot both be true."""
        if claim.outcome == "fixed" and claim.after == "fail":
            self.problems.append('"outcome" is "fixed" but "after" is "fail": one of them is wrong.')
        if claim.outcome in ("fixed", "improved") and not claim.changes:
            self.problems.append(f'"outcome" is "{claim.outcome}" but "changes" is empty: list your commits in it.')
        if claim.outcome == "unchanged" and claim.changes:
            self.problems.append('"outcome" is "unchanged" but "changes" is not empty: one of them is wrong.')

    def _read_change(self, label: str, data: object) -> ClaimedChange:
        row = self._read_object(label, data, ("kind", "summary", "commits")) or {}
        commits = [value for _, value in self._list_entries(f"{label}.commits", row, "commits")]
        for commit in commits:
            if not isinstance(commit, str) or not _COMMIT_PATTERN.fullmatch(commit):
                self.problems.append(f"{label}.commits has {_format_value(commit)}, which is not a commit id.")
        return ClaimedChange(
            kind=self._read_choice("kind", row, CHANGE_KINDS, label),
            summary=self._read_text(f"{label}.summary", row, "summary", _TEXT),
            commits=tuple(map(str, commits)),
        )

    def _read_escalation(self, label: str, data: object) -> Escalation:
        row = self._read_object(label, data, ("kind", "title"), ("detail", "locations")) or {}
        return Escalation(
            kind=self._read_choice("kind", row, ESCALATION_KINDS, label),
            title=self._read_text(f"{label}.title", row, "title", _TITLE),
            detail=self._read_text(f"{label}.detail", row, "detail", _TEXT),
            locations=tuple(
                self._read_location(*entry) for entry in self._list_entries(f"{label}.locations", row, "locations")
            ),
        )

    def _read_location(self, label: str, data: object) -> Location:
        row = self._read_object(label, data, ("path",), ("line",)) or {}
        line = row.get("line")
        if line is not None and (isinstance(line, bool) or not isinstance(line, int) or not 0 < line < 1 << 31):
            self.problems.append(f"{label}.line is {_format_value(line)}; it must be a line number.")
            line = None
        return Location(path=self._read_text(f"{label}.path", row, "path", 4096), line=line)

    def _read_run(self, label: str, data: object) -> ClaimedRun:
        row = self._read_object(label, data, ("name",), ("description",)) or {}
        return ClaimedRun(
            name=self._read_text(f"{label}.name", row, "name", _TITLE),
            description=self._read_text(f"{label}.description", row, "description", _TEXT),
        )

    def _read_object(
        self, label: str, data: object, required: Sequence[str], optional: Sequence[str] = ()
    ) -> dict[str, object] | None:
        if not isinstance(data, dict):
            self.problems.append(f"{label} is {_format_value(data)}; it must be an object.")
            return None
        known = [*required, *optional]
        for name in required:
            if name not in data:
                self.problems.append(f'{label} has no "{name}".')
        for name in [name for name in data if name not in known][:_MAX_PROBLEMS]:
            hint = suggest_closest(name[:40], known)
            self.problems.append(
                f"{label} has {_format_value(name)}, which is not a known key" + (f"; {hint}" if hint else ".")
            )
        return data

    def _list_entries(self, label: str, row: dict[str, object], name: str) -> list[tuple[str, object]]:
        """Return the entries of a list, each with its label for messages."""
        data = row.get(name, [])
        if not isinstance(data, list):
            self.problems.append(f"{label} is {_format_value(data)}; it must be a list.")
            return []
        if len(data) > _ROWS:
            self.problems.append(f"{label} has {len(data)} entries; at most {_ROWS} are allowed.")
            return []
        return [(f"{label}[{number}]", value) for number, value in enumerate(data)]

    def _read_choice(self, name: str, row: dict[str, object], choices: Sequence[str], parent_label: str = "") -> str:
        value = row.get(name)
        if name in row and value not in choices:
            label = f"{parent_label}.{name}" if parent_label else f'"{name}"'
            self.problems.append(f"{label} is {_format_value(value)}; it must be one of {', '.join(choices)}.")
        return str(value)

    def _read_text(self, label: str, row: dict[str, object], name: str, max_length: int) -> str:
        value = row.get(name, "")
        if not isinstance(value, str):
            self.problems.append(f"{label} is {_format_value(value)}; it must be a string.")
            return ""
        if len(value) > max_length:
            self.problems.append(f"{label} has {len(value)} characters; at most {max_length} are allowed.")
        if _SURROGATES.search(value):
            self.problems.append(f"{label} contains an invalid character (a lone surrogate).")
        return value


def _reject_duplicate_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names: set[str] = set()
        for name, _ in pairs:
            if name in names:
                raise ValueError(f"an object in it has the key {_format_value(name)} twice")
            names.add(name)
    return result


def _reject_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not allowed in JSON")


def _format_value(value: object) -> str:
    """Return a value for use in a sentence: short and in ASCII."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    if isinstance(value, str):
        value = value if len(value) <= 60 else value[:60] + "…"
    return json.dumps(value)[:100]
