"""The append-only journal of a run. It has one writer, which writes each intent before it acts."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shlex
from collections.abc import Callable

from mngr.base import garbage_collection, time_format
from mngr.base.errors import MngrError
from mngr.base.json_structs import decode, encode_briefly
from mngr.base.untrusted_json import get_text
from mngr.mapreduce.journal.journal_rows import ROW_CLASSES
from mngr.mapreduce.journal.replay import Replay
from mngr.mapreduce.journal.run_state import JournalRow, RecipeRow, RunState

_HEAD_BYTES = 96  # of a line, in which its time and its type are


class Journal:
    """The one writer of a journal: `with Journal(path) as journal:`.

    Entering the block raises MngrError when another process writes the journal.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1
        self._lock = -1
        self._length = 0  # bytes of complete rows
        self.rows: list[JournalRow] = []

    def __enter__(self) -> Journal:
        self._lock = os.open(self._path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.read(self._lock, 32).decode("ascii", "replace").strip()
            os.close(self._lock)
            run = os.path.basename(os.path.dirname(self._path))
            raise MngrError(
                f"the run {run} is still running, in process {owner or '?'}", f"watch it: mngr tmr status {run}"
            ) from None
        os.ftruncate(self._lock, 0)
        os.write(self._lock, f"{os.getpid()}\n".encode())
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with garbage_collection.pause():
            self.rows, self._length = _read_rows(self._path)
        os.ftruncate(self._fd, self._length)  # a crash left an incomplete row
        os.lseek(self._fd, self._length, os.SEEK_SET)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)
        os.close(self._lock)

    def write(self, row: JournalRow, *, sync: bool = True) -> JournalRow:
        """Append a row and return it with its time.

        Without `sync`, a machine crash may lose the row: use that for facts that can be observed again.
        """
        row = row.replace(at=time_format.format_timestamp())
        line = json.dumps(encode_row(row)).encode() + b"\n"
        try:
            if os.write(self._fd, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if sync:
                os.fsync(self._fd)
        except OSError as error:
            os.ftruncate(self._fd, self._length)
            os.lseek(self._fd, self._length, os.SEEK_SET)
            run = os.path.basename(os.path.dirname(self._path))
            raise MngrError(
                f"cannot write the journal of the run: {error.strerror}",
                f"the agents continue; free some disk space, then continue the run: mngr tmr resume {run}, or mngr map --resume {run}",
            ) from None
        self._length += len(line)
        self.rows.append(row)
        return row


class JournaledState:
    """The state of a run that goes on. It changes only by rows that are written to the journal."""

    def __init__(self, journal: Journal, on_row: Callable[[JournalRow], None]) -> None:
        self._journal = journal
        self._on_row = on_row
        with garbage_collection.pause():
            self._replay = Replay(journal.rows)

    @property
    def current(self) -> RunState:
        """Return the state. This object changes with every row that is written."""
        return self._replay.state

    def write(self, row: JournalRow, *, sync: bool = True) -> None:
        """Journal a row, apply it to the state and pass it to `on_row`."""
        row = self._journal.write(row, sync=sync)
        self._replay.add(row)
        self._on_row(row)


def encode_row(row: JournalRow) -> dict[str, object]:
    """Return the JSON form of a row."""
    if isinstance(row, RecipeRow):
        return {"v": 1, "at": row.at, "type": row.type, **encode_briefly(row.fields)}
    fields = encode_briefly(row)
    return {"v": 1, "at": fields.pop("at", ""), "type": row.type_name, **fields}


def decode_row(data: object) -> JournalRow:
    """Return the row that `encode_row` wrote. Raise ValueError when it is none."""
    if not isinstance(data, dict) or not isinstance(data.get("type"), str):
        raise ValueError("this is not a row of a journal")
    row_class = ROW_CLASSES.get(data["type"])
    if row_class is not None:
        return decode(row_class, data)
    fields = {key: value for key, value in data.items() if key not in ("v", "at", "type")}
    return RecipeRow(type=data["type"], at=get_text(data, "at"), fields=fields)


def read_journal(path: str, *, skip: str | None = None) -> list[JournalRow]:
    """Return all complete rows except those of the type `skip`, or an empty list when there is no journal."""
    with garbage_collection.pause():
        return _read_rows(path, None if skip is None else f'"type": "{skip}"'.encode())[0]


def find_writer(path: str) -> int | None:
    """Return the id of the process that writes the journal now, 0 when its id is unreadable, or None."""
    try:
        fd = os.open(path + ".lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except OSError:
        owner = os.read(fd, 32).strip()
        return int(owner) if owner.isdigit() else 0
    finally:
        os.close(fd)


def _read_rows(path: str, skipped_text: bytes | None = None) -> tuple[list[JournalRow], int]:
    """Return the rows and their length in bytes. An incomplete last line is ignored.

    Lines that begin with `skipped_text` after their time are not parsed.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return [], 0
    lines = data.split(b"\n")[:-1]
    wanted = lines if skipped_text is None else [line for line in lines if skipped_text not in line[:_HEAD_BYTES]]
    try:
        values = json.loads(b"[" + b",".join(wanted) + b"]")  # much faster than line by line
        if len(values) == len(wanted):
            return [decode_row(value) for value in values], sum(map(len, lines)) + len(lines)
    except ValueError:
        pass
    return _read_damaged_rows(path, lines)


def _read_damaged_rows(path: str, lines: list[bytes]) -> tuple[list[JournalRow], int]:
    """Return the rows if only the last line is damaged, else raise MngrError."""
    rows: list[JournalRow] = []
    length = 0
    for number, line in enumerate(lines, 1):
        try:
            row = decode_row(json.loads(line))
        except ValueError:
            if number == len(lines):  # the end of the last line was written, but not its middle
                break
            raise MngrError(
                f"{path}:{number} is damaged",
                f"only mngr writes the journal; delete the line, and keep a copy of the file: sed -i.bak {number}d {shlex.quote(path)}",
            ) from None
        rows.append(row)
        length += len(line) + 1
    return rows, length
