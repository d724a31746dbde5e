"""Stores what runs leave for later runs: JSON files of rows, each row with a unique name."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Collection, Iterator
from typing import Generic, TypeVar

from mngr.base import time_format
from mngr.base.lock import Lock
from mngr.base.model import Struct
from mngr.base.paths import Home
from mngr.base.trust.project_trust import find_repository

Row = TypeVar("Row", bound=Struct)


class HistoryFile(Generic[Row]):
    """A file of rows that several processes may share.

    An unreadable file counts as empty, because it only saves work.
    """

    def __init__(self, home: Home, root: str, file: str, row: type[Row], name: str) -> None:
        """`root` is the project. `name` is the field that identifies a row.

        The file is in mngr's home: a repository could contain results that mngr never saw, or links to other files.
        """
        repository = hashlib.sha256(os.fsencode(find_repository(root))).hexdigest()[:24]
        self._path = os.path.join(home.history, repository, file)
        self._row, self._name = row, name

    def read(self) -> dict[str, Row]:
        """Return all rows, by name."""
        try:
            with open(self._path, encoding="utf-8") as file:
                return {row[self._name]: self._row(**row) for row in json.load(file)["rows"]}
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    @contextlib.contextmanager
    def edit_rows(self) -> Iterator[dict[str, Row]]:
        """Yield all rows for changes in place, and write them at the end. No other process can write meanwhile."""
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        with Lock(self._path + ".lock"):
            rows = self.read()
            yield rows
            values = [row.to_dict() for _, row in sorted(rows.items())]
            with open(self._path + ".new", "w", encoding="utf-8") as file:
                json.dump({"v": 1, "at": time_format.format_timestamp(), "rows": values}, file, indent=1)
            os.replace(self._path + ".new", self._path)

    def delete_rows(self, names: Collection[str] | None = None) -> list[str]:
        """Delete the named rows, or all rows, and return the names of the deleted rows."""
        if not os.path.exists(self._path):
            return []
        with self.edit_rows() as rows:
            deleted = [name for name in (list(rows) if names is None else names) if name in rows]
            for name in deleted:
                rows.pop(name, None)
        return deleted
