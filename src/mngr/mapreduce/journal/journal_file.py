"""The append-only journal of a run. It has one writer, which writes each intent before it acts."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shlex
from collections.abc import Callable

from mngr.base import time_format
from mngr.base.errors import MngrError
from mngr.base.json_structs import decode, encode
from mngr.base.json_values import get_text
from mngr.mapreduce.journal.journal_rows import ROW_CLASSES
from mngr.mapreduce.journal.replay import apply_row, replay_rows
from mngr.mapreduce.journal.run_state import JournalRow, RecipeRow


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
                f"the agents continue; free some disk space, then: mngr tmr resume {run}",
            ) from None
        self._length += len(line)
        self.rows.append(row)
        return row


class JournaledState:
    """The state of a run that goes on. It changes only by rows that are written to the journal."""

    def __init__(self, journal: Journal, on_row: Callable[[JournalRow], None]) -> None:
        self._journal = journal
        self._on_row = on_row
        self.current = replay_rows(journal.rows)

    def write(self, row: JournalRow, *, sync: bool = True) -> None:
        """Journal a row, apply it to the state and pass it to `on_row`."""
        row = self._journal.write(row, sync=sync)
        self.current = apply_row(self.current, row)
        self._on_row(row)


def encode_row(row: JournalRow) -> dict[str, object]:
    """Return the JSON form of a row."""
    if isinstance(row, RecipeRow):
        return {"v": 1, "at": row.at, "type": row.type, **encode(row.fields)}
    fields = encode(row)
    return {"v": 1, "at": fields.pop("at"), "type": row.type_name, **fields}


def decode_row(data: object) -> JournalRow:
    """Return the row that `encode_row` wrote. Raise ValueError when it is none."""
    if not isinstance(data, dict) or not isinstance(data.get("type"), str):
        raise ValueError("this is not a row of a journal")
    row_class = ROW_CLASSES.get(data["type"])
    if row_class is not None:
        return decode(row_class, data)
    fields = {key: value for key, value in data.items() if key not in ("v", "at", "type")}
    return RecipeRow(type=data["type"], at=get_text(data, "at"), fields=fields)


def read_journal(path: str) -> list[JournalRow]:
    """Return all complete rows, or an empty list when there is no journal."""
    return _read_rows(path)[0]


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


def _read_rows(path: str) -> tuple[list[JournalRow], int]:
    """Return the rows and their length in bytes. An incomplete last line is ignored."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return [], 0
    rows: list[JournalRow] = []
    length = 0
    lines = data.split(b"\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            row = decode_row(json.loads(line))
        except ValueError:
            if number == len(lines) - 1:  # the end of the last line was written, but not its middle
                break
            raise MngrError(
                f"{path}:{number} is damaged",
                f"only mngr writes the journal; delete the line: sed -i {number}d {shlex.quote(path)}",
            ) from None
        rows.append(row)
        length += len(line) + 1
    return rows, length
