"""What an agent says of its task: `result.json`, read as the work of a stranger and judged in sentences it can act on."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Sequence
from typing import Any

from mngr.base.errors import closest
from mngr.base.model import Record

OUTCOMES = ("fixed", "improved", "unchanged", "blocked", "failed")
VERDICTS = ("pass", "fail", "flaky")
CHANGES = ("FIX_IMPL", "FIX_TEST", "IMPROVE_TEST", "ADD_TEST", "FIX_TUTORIAL", "FIX_DOC")
ESCALATIONS = ("BLOCKER", "SHARED_CAUSE", "UNCAUGHT_BUG", "AMBIGUOUS", "HARNESS_DEFECT", "DUPLICATE")
MAX_BYTES = 1 << 20
_TITLE, _TEXT, _ROWS = 300, 20_000, 100  # characters of one line, of a longer text, entries of a list
_TOLD = 8  # problems at once: more are no help
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_HALF = re.compile("[\ud800-\udfff]")
_NEEDED = ("v", "task", "outcome", "before", "after", "summary")
_LISTS = ("changes", "escalations", "runs")


class Change(Record):
    """What was changed, in commits of one kind."""

    kind: str
    summary: str
    commits: tuple[str, ...] = ()


class Location(Record):
    """A place in the project that an escalation is about."""

    path: str
    line: int | None = None


class Escalation(Record):
    """What somebody else must see to, whatever the outcome."""

    kind: str
    title: str
    detail: str = ""
    locations: tuple[Location, ...] = ()


class Run(Record):
    """A run of the test that the agent wants to be seen."""

    name: str
    description: str = ""


class Result(Record):
    """What an agent claims. Nothing of it is known to be true."""

    task: str
    outcome: str
    before: str
    after: str
    summary: str
    changes: tuple[Change, ...] = ()
    escalations: tuple[Escalation, ...] = ()
    runs: tuple[Run, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As it stands in the file."""
        return {"v": 1, **{name: _plain(value) for name, value in super().to_dict().items()}}


def read_result(path: str, task: str) -> Result | list[str]:
    """The result of `task` in the file, or what is wrong with it in sentences for its author; never raises."""
    try:
        text = _read(path)
    except OSError as error:
        return [f"result.json cannot be read: {error.strerror}."]
    except ValueError as error:
        return [str(error)]
    return parse_result(text, task)


def parse_result(text: str, task: str) -> Result | list[str]:
    """The same of a text."""
    try:
        data = json.loads(text, object_pairs_hook=_pairs, parse_constant=_no_constant)
    except RecursionError:
        return ["result.json is nested too deep to be one."]
    except ValueError as error:
        said = str(error) if len(str(error)) < 200 else "a number in it is too long"
        return [f"result.json is not JSON: {said}. Write it with a JSON library and rename it into place."]
    reader = _Reader()
    found = reader.result(data, task)
    if not reader.problems:
        return found
    more = len(reader.problems) - _TOLD
    return reader.problems[:_TOLD] + ([f"And {more} more of the kind."] if more > 0 else [])


def _read(path: str) -> str:
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
        raise ValueError(
            "result.json is larger than 1 MB: cut its texts, put what is long in files of their own."
        )
    if not data.strip():
        raise ValueError("result.json is empty.")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"result.json is not UTF-8: byte {error.start + 1} is wrong.") from None


class _Reader:
    """Takes a result apart and notes all that is wrong."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def result(self, data: Any, task: str) -> Result:
        """What can be read of it; of use only if there are no problems."""
        row = self._object("result.json", data, _NEEDED, _LISTS)
        if row is None:
            return Result(task=task, outcome="", before="", after="", summary="")
        if "v" in row and (row["v"] != 1 or isinstance(row["v"], bool)):
            self.problems.append(f'"v" is {_shown(row["v"])}, it must be 1.')
        if "task" in row and row["task"] != task:
            self.problems.append(f'"task" is {_shown(row["task"])}, but this task is {_shown(task)}.')
        found = Result(
            task=task,
            outcome=self._word("outcome", row, OUTCOMES),
            before=self._word("before", row, VERDICTS),
            after=self._word("after", row, VERDICTS),
            summary=self._text("summary", row, "summary", _TEXT),
            changes=tuple(self._change(*each) for each in self._rows("changes", row, "changes")),
            escalations=tuple(
                self._escalation(*each) for each in self._rows("escalations", row, "escalations")
            ),
            runs=tuple(self._run(*each) for each in self._rows("runs", row, "runs")),
        )
        if not self.problems:
            self._agree(found)
        return found

    def _agree(self, found: Result) -> None:
        """What cannot be true together."""
        if found.outcome == "fixed" and found.after == "fail":
            self.problems.append('"outcome" is "fixed" but "after" is "fail": one of them is wrong.')
        if found.outcome in ("fixed", "improved") and not found.changes:
            self.problems.append(
                f'"outcome" is "{found.outcome}" but "changes" is empty: list your commits in it.'
            )
        if found.outcome == "unchanged" and found.changes:
            self.problems.append('"outcome" is "unchanged" but "changes" is not empty: one of them is wrong.')

    def _change(self, where: str, data: Any) -> Change:
        row = self._object(where, data, ("kind", "summary", "commits")) or {}
        commits = [value for _, value in self._rows(f"{where}.commits", row, "commits")]
        for commit in commits:
            if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
                self.problems.append(f"{where}.commits has {_shown(commit)}, which is no commit id.")
        return Change(
            kind=self._word("kind", row, CHANGES, where),
            summary=self._text(f"{where}.summary", row, "summary", _TEXT),
            commits=tuple(map(str, commits)),
        )

    def _escalation(self, where: str, data: Any) -> Escalation:
        row = self._object(where, data, ("kind", "title"), ("detail", "locations")) or {}
        return Escalation(
            kind=self._word("kind", row, ESCALATIONS, where),
            title=self._text(f"{where}.title", row, "title", _TITLE),
            detail=self._text(f"{where}.detail", row, "detail", _TEXT),
            locations=tuple(
                self._location(*each) for each in self._rows(f"{where}.locations", row, "locations")
            ),
        )

    def _location(self, where: str, data: Any) -> Location:
        row = self._object(where, data, ("path",), ("line",)) or {}
        line = row.get("line")
        if line is not None and (
            isinstance(line, bool) or not isinstance(line, int) or not 0 < line < 1 << 31
        ):
            self.problems.append(f"{where}.line is {_shown(line)}, it must be the number of a line.")
            line = None
        return Location(path=self._text(f"{where}.path", row, "path", 4096), line=line)

    def _run(self, where: str, data: Any) -> Run:
        row = self._object(where, data, ("name",), ("description",)) or {}
        return Run(
            name=self._text(f"{where}.name", row, "name", _TITLE),
            description=self._text(f"{where}.description", row, "description", _TEXT),
        )

    def _object(
        self, where: str, data: Any, needed: Sequence[str], others: Sequence[str] = ()
    ) -> dict[str, Any] | None:
        if not isinstance(data, dict):
            self.problems.append(f"{where} is {_shown(data)}, it must be an object.")
            return None
        known = [*needed, *others]
        for name in needed:
            if name not in data:
                self.problems.append(f'{where} has no "{name}".')
        for name in [name for name in data if name not in known][:_TOLD]:
            hint = closest(name[:40], known)
            self.problems.append(
                f"{where} has {_shown(name)}, which is not known" + (f"; {hint}" if hint else ".")
            )
        return data

    def _rows(self, where: str, row: dict[str, Any], name: str) -> list[tuple[str, Any]]:
        """Each entry of a list with what to call it."""
        data = row.get(name, [])
        if not isinstance(data, list):
            self.problems.append(f"{where} is {_shown(data)}, it must be a list.")
            return []
        if len(data) > _ROWS:
            self.problems.append(f"{where} has {len(data)} entries, at most {_ROWS} are taken.")
            return []
        return [(f"{where}[{number}]", value) for number, value in enumerate(data)]

    def _word(self, name: str, row: dict[str, Any], words: Sequence[str], where: str = "") -> str:
        value = row.get(name)
        if name in row and value not in words:
            called = f"{where}.{name}" if where else f'"{name}"'
            self.problems.append(f"{called} is {_shown(value)}, it must be one of {', '.join(words)}.")
        return str(value)

    def _text(self, where: str, row: dict[str, Any], name: str, most: int) -> str:
        value = row.get(name, "")
        if not isinstance(value, str):
            self.problems.append(f"{where} is {_shown(value)}, it must be a text.")
            return ""
        if len(value) > most:
            self.problems.append(f"{where} has {len(value)} characters, at most {most} are taken.")
        if _HALF.search(value):
            self.problems.append(f"{where} has half a character in it (a lone surrogate).")
        return value


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"an object in it has {_shown(name)} twice")
            seen.add(name)
    return found


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _shown(value: Any) -> str:
    """A value in a sentence, short and in plain characters."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    if isinstance(value, str):
        value = value if len(value) <= 60 else value[:60] + "…"
    return json.dumps(value)[:100]


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return {name: _plain(each) for name, each in value.to_dict().items()}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value
