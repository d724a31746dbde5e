"""The append-only journal of a run. It has one writer, which writes each intent before it acts."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shlex
from collections.abc import Callable, Iterator, Sequence

from mngr.base import time_format
from mngr.base.errors import MngrError
from mngr.base.json_structs import decode, encode_briefly
from mngr.base.python_process import pause_python_gc
from mngr.base.untrusted_json import get_text
from mngr.mapreduce.journal.journal_rows import ROW_CLASSES
from mngr.mapreduce.journal.replay import Replay
from mngr.mapreduce.journal.run_state import JournalRow, RecipeRow, RunState

_HEAD_BYTES = 96  # of a line, in which its time and its type are
_BATCH_BYTES = 1 << 18  # of the lines that are parsed together


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
        with pause_python_gc.pause():
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
        with pause_python_gc.pause():
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


def read_journal(path: str) -> list[JournalRow]:
    """Return all complete rows, or an empty list when there is no journal."""
    with pause_python_gc.pause():
        return _read_rows(path)[0]


def iter_journal(path: str, *, skip: Sequence[str] = ()) -> Iterator[JournalRow]:
    """Yield all complete rows except those of the types `skip`. Only a part of the journal is in memory at a time."""
    for rows, _ in _iter_batches(path, [f'"type": "{name}"'.encode() for name in skip]):
        yield from rows


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
    """Return the rows and their length in bytes."""
    all_rows: list[JournalRow] = []
    length = 0
    for rows, byte_count in _iter_batches(path):
        all_rows += rows
        length += byte_count
    return all_rows, length


def _iter_batches(path: str, skipped_texts: Sequence[bytes] = ()) -> Iterator[tuple[list[JournalRow], int]]:
    """Yield some rows at a time, with the length of their lines in bytes. An incomplete last line is ignored.

    Lines that begin with one of `skipped_texts` after their time are not parsed.
    """
    if not os.path.exists(path):
        return
    with open(path, "rb") as file:
        first_number, lines = 1, file.readlines(_BATCH_BYTES)
        while lines:
            later_lines = file.readlines(_BATCH_BYTES)
            if not lines[-1].endswith(b"\n"):
                lines.pop()
            try:
                yield _decode_lines(lines, skipped_texts), sum(map(len, lines))
            except ValueError:
                yield _decode_damaged_lines(path, lines, first_number, is_end=not later_lines)
            first_number, lines = first_number + len(lines), later_lines


def _decode_lines(lines: Sequence[bytes], skipped_texts: Sequence[bytes]) -> list[JournalRow]:
    """Return the rows of complete lines. Raise ValueError if a line is damaged."""
    for text in skipped_texts:
        lines = [line for line in lines if text not in line[:_HEAD_BYTES]]
    values = json.loads(b"[" + b",".join(lines) + b"]")  # much faster than line by line
    if len(values) != len(lines):
        raise ValueError("a line has several values")
    return [decode_row(value) for value in values]


def _decode_damaged_lines(
    path: str, lines: Sequence[bytes], first_number: int, *, is_end: bool
) -> tuple[list[JournalRow], int]:
    """Return the rows and their length if only the last line of the journal is damaged, else raise MngrError."""
    rows: list[JournalRow] = []
    length = 0
    for number, line in enumerate(lines, first_number):
        try:
            row = decode_row(json.loads(line))
        except ValueError:
            if is_end and number == first_number + len(lines) - 1:  # its end was written, but not its middle
                break
            raise MngrError(
                f"{path}:{number} is damaged",
                f"only mngr writes the journal; delete the line, and keep a copy of the file: sed -i.bak {number}d {shlex.quote(path)}",
            ) from None
        rows.append(row)
        length += len(line)
    return rows, length
