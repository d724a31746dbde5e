"""What an agent says of its task: `result.json`, read as the work of a stranger and judged in sentences it can act on."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Sequence
from typing import Any

from mngr.base.errors import suggest_closest
from mngr.base.model import Struct

OUTCOMES = ("fixed", "improved", "unchanged", "blocked", "failed")
VERDICTS = ("pass", "fail", "flaky")
CHANGE_KINDS = ("FIX_IMPL", "FIX_TEST", "IMPROVE_TEST", "ADD_TEST", "FIX_TUTORIAL", "FIX_DOC")
ESCALATION_KINDS = ("BLOCKER", "SHARED_CAUSE", "UNCAUGHT_BUG", "AMBIGUOUS", "HARNESS_DEFECT", "DUPLICATE")
MAX_BYTES = 1 << 20
_TITLE, _TEXT, _ROWS = 300, 20_000, 100  # characters of one line, of a longer text, entries of a list
_MAX_PROBLEMS = 8  # problems at once: more are no help
_COMMIT_PATTERN = re.compile(r"[0-9a-f]{7,64}")
_SURROGATES = re.compile("[\ud800-\udfff]")
_REQUIRED_FIELDS = ("v", "task", "outcome", "before", "after", "summary")
_LIST_FIELDS = ("changes", "escalations", "runs")


class ClaimedChange(Struct):
    """What was changed, in commits of one kind."""

    kind: str
    summary: str
    commits: tuple[str, ...] = ()


class Location(Struct):
    """A place in the project that an escalation is about."""

    path: str
    line: int | None = None


class Escalation(Struct):
    """What somebody else must see to, whatever the outcome."""

    kind: str
    title: str
    detail: str = ""
    locations: tuple[Location, ...] = ()


class ClaimedRun(Struct):
    """A run of the test that the agent wants to be seen."""

    name: str
    description: str = ""


class AgentClaim(Struct):
    """What an agent claims. Nothing of it is known to be true."""

    task: str
    outcome: str
    before: str
    after: str
    summary: str
    changes: tuple[ClaimedChange, ...] = ()
    escalations: tuple[Escalation, ...] = ()
    runs: tuple[ClaimedRun, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As it stands in the file."""
        return {"v": 1, **{name: _plain(value) for name, value in super().to_dict().items()}}


def read_claim(path: str, task: str) -> AgentClaim | list[str]:
    """The result of `task` in the file, or what is wrong with it in sentences for its author; never raises."""
    try:
        text = _read_file(path)
    except OSError as error:
        return [f"result.json cannot be read: {error.strerror}."]
    except ValueError as error:
        return [str(error)]
    return parse_claim(text, task)


def parse_claim(text: str, task: str) -> AgentClaim | list[str]:
    """The same of a text."""
    try:
        data = json.loads(text, object_pairs_hook=_reject_duplicate_keys, parse_constant=_reject_constant)
    except RecursionError:
        return ["result.json is nested too deep to be one."]
    except ValueError as error:
        said = str(error) if len(str(error)) < 200 else "a number in it is too long"
        return [f"result.json is not JSON: {said}. Write it with a JSON library and rename it into place."]
    reader = _ClaimReader()
    found = reader.read_claim(data, task)
    if not reader.problems:
        return found
    more = len(reader.problems) - _MAX_PROBLEMS
    return reader.problems[:_MAX_PROBLEMS] + ([f"And {more} more of the kind."] if more > 0 else [])


def _read_file(path: str) -> str:
    """The text of the file, which must be one; ValueError says why not."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ValueError("there is no result.json.") from None
    except OSError:
        if os.path.islink(path):
            raise ValueError("result.json is a link; it must be a file.") from None
        raise
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ValueError("result.json is not a regular file.")
        with os.fdopen(fd, "rb", closefd=False) as file:
            data = file.read(MAX_BYTES + 1)
    finally:
        os.close(fd)
    if len(data) > MAX_BYTES:
        raise ValueError("result.json is larger than 1 MB: cut its texts, put what is long in files of their own.")
    if not data.strip():
        raise ValueError("result.json is empty.")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"result.json is not UTF-8: byte {error.start + 1} is wrong.") from None


class _ClaimReader:
    """Takes a result apart and notes all that is wrong."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def read_claim(self, data: Any, task: str) -> AgentClaim:
        """What can be read of it; of use only if there are no problems."""
        row = self._read_object("result.json", data, _REQUIRED_FIELDS, _LIST_FIELDS)
        if row is None:
            return AgentClaim(task=task, outcome="", before="", after="", summary="")
        if "v" in row and (row["v"] != 1 or isinstance(row["v"], bool)):
            self.problems.append(f'"v" is {_format_value(row["v"])}, it must be 1.')
        if "task" in row and row["task"] != task:
            self.problems.append(f'"task" is {_format_value(row["task"])}, but this task is {_format_value(task)}.')
        found = AgentClaim(
            task=task,
            outcome=self._read_choice("outcome", row, OUTCOMES),
            before=self._read_choice("before", row, VERDICTS),
            after=self._read_choice("after", row, VERDICTS),
            summary=self._read_text("summary", row, "summary", _TEXT),
            changes=tuple(self._read_change(*each) for each in self._list_entries("changes", row, "changes")),
            escalations=tuple(
                self._read_escalation(*each) for each in self._list_entries("escalations", row, "escalations")
            ),
            runs=tuple(self._read_run(*each) for each in self._list_entries("runs", row, "runs")),
        )
        if not self.problems:
            self._check_consistency(found)
        return found

    def _check_consistency(self, found: AgentClaim) -> None:
        """What cannot be true together."""
        if found.outcome == "fixed" and found.after == "fail":
            self.problems.append('"outcome" is "fixed" but "after" is "fail": one of them is wrong.')
        if found.outcome in ("fixed", "improved") and not found.changes:
            self.problems.append(f'"outcome" is "{found.outcome}" but "changes" is empty: list your commits in it.')
        if found.outcome == "unchanged" and found.changes:
            self.problems.append('"outcome" is "unchanged" but "changes" is not empty: one of them is wrong.')

    def _read_change(self, where: str, data: Any) -> ClaimedChange:
        row = self._read_object(where, data, ("kind", "summary", "commits")) or {}
        commits = [value for _, value in self._list_entries(f"{where}.commits", row, "commits")]
        for commit in commits:
            if not isinstance(commit, str) or not _COMMIT_PATTERN.fullmatch(commit):
                self.problems.append(f"{where}.commits has {_format_value(commit)}, which is no commit id.")
        return ClaimedChange(
            kind=self._read_choice("kind", row, CHANGE_KINDS, where),
            summary=self._read_text(f"{where}.summary", row, "summary", _TEXT),
            commits=tuple(map(str, commits)),
        )

    def _read_escalation(self, where: str, data: Any) -> Escalation:
        row = self._read_object(where, data, ("kind", "title"), ("detail", "locations")) or {}
        return Escalation(
            kind=self._read_choice("kind", row, ESCALATION_KINDS, where),
            title=self._read_text(f"{where}.title", row, "title", _TITLE),
            detail=self._read_text(f"{where}.detail", row, "detail", _TEXT),
            locations=tuple(
                self._read_location(*each) for each in self._list_entries(f"{where}.locations", row, "locations")
            ),
        )

    def _read_location(self, where: str, data: Any) -> Location:
        row = self._read_object(where, data, ("path",), ("line",)) or {}
        line = row.get("line")
        if line is not None and (isinstance(line, bool) or not isinstance(line, int) or not 0 < line < 1 << 31):
            self.problems.append(f"{where}.line is {_format_value(line)}, it must be the number of a line.")
            line = None
        return Location(path=self._read_text(f"{where}.path", row, "path", 4096), line=line)

    def _read_run(self, where: str, data: Any) -> ClaimedRun:
        row = self._read_object(where, data, ("name",), ("description",)) or {}
        return ClaimedRun(
            name=self._read_text(f"{where}.name", row, "name", _TITLE),
            description=self._read_text(f"{where}.description", row, "description", _TEXT),
        )

    def _read_object(
        self, where: str, data: Any, needed: Sequence[str], others: Sequence[str] = ()
    ) -> dict[str, Any] | None:
        if not isinstance(data, dict):
            self.problems.append(f"{where} is {_format_value(data)}, it must be an object.")
            return None
        known = [*needed, *others]
        for name in needed:
            if name not in data:
                self.problems.append(f'{where} has no "{name}".')
        for name in [name for name in data if name not in known][:_MAX_PROBLEMS]:
            hint = suggest_closest(name[:40], known)
            self.problems.append(
                f"{where} has {_format_value(name)}, which is not known" + (f"; {hint}" if hint else ".")
            )
        return data

    def _list_entries(self, where: str, row: dict[str, Any], name: str) -> list[tuple[str, Any]]:
        """Each entry of a list with what to call it."""
        data = row.get(name, [])
        if not isinstance(data, list):
            self.problems.append(f"{where} is {_format_value(data)}, it must be a list.")
            return []
        if len(data) > _ROWS:
            self.problems.append(f"{where} has {len(data)} entries, at most {_ROWS} are taken.")
            return []
        return [(f"{where}[{number}]", value) for number, value in enumerate(data)]

    def _read_choice(self, name: str, row: dict[str, Any], words: Sequence[str], where: str = "") -> str:
        value = row.get(name)
        if name in row and value not in words:
            called = f"{where}.{name}" if where else f'"{name}"'
            self.problems.append(f"{called} is {_format_value(value)}, it must be one of {', '.join(words)}.")
        return str(value)

    def _read_text(self, where: str, row: dict[str, Any], name: str, most: int) -> str:
        value = row.get(name, "")
        if not isinstance(value, str):
            self.problems.append(f"{where} is {_format_value(value)}, it must be a text.")
            return ""
        if len(value) > most:
            self.problems.append(f"{where} has {len(value)} characters, at most {most} are taken.")
        if _SURROGATES.search(value):
            self.problems.append(f"{where} has half a character in it (a lone surrogate).")
        return value


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"an object in it has {_format_value(name)} twice")
            seen.add(name)
    return found


def _reject_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _format_value(value: Any) -> str:
    """A value in a sentence, short and in plain characters."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    if isinstance(value, str):
        value = value if len(value) <= 60 else value[:60] + "…"
    return json.dumps(value)[:100]


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return {name: _plain(each) for name, each in value.to_dict().items()}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value
