"""What runs leave for later ones, beside them: files of rows, each under a name of its own."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Iterator
from typing import Generic, TypeVar

from mngr.base import clock
from mngr.base.lock import Lock
from mngr.base.model import Struct

Row = TypeVar("Row", bound=Struct)


class HistoryFile(Generic[Row]):
    """One such file. What cannot be read is forgotten: it only helps. Several processes may be at it."""

    def __init__(self, root: str, file: str, row: type[Row], name: str) -> None:
        """`name` is the field that rows are known by."""
        self._path = os.path.join(root, ".mngr", "runs", file)
        self._row, self._name = row, name

    def read(self) -> dict[str, Row]:
        """All rows, by name."""
        try:
            with open(self._path, encoding="utf-8") as file:
                return {row[self._name]: self._row(**row) for row in json.load(file)["rows"]}
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    @contextlib.contextmanager
    def edit_rows(self) -> Iterator[dict[str, Row]]:
        """All rows, to be changed in place: they are written at the end, and nobody else writes until then."""
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        with Lock(self._path + ".lock"):
            rows = self.read()
            yield rows
            said = [row.to_dict() for _, row in sorted(rows.items())]
            with open(self._path + ".new", "w", encoding="utf-8") as file:
                json.dump({"v": 1, "at": clock.format_timestamp(), "rows": said}, file, indent=1)
            os.replace(self._path + ".new", self._path)

    def delete_rows(self, names: Collection[str] | None = None) -> list[str]:
        """Forget some rows, or all; the names of those that were there."""
        if not os.path.exists(self._path):
            return []
        with self.edit_rows() as rows:
            gone = [name for name in (list(rows) if names is None else names) if name in rows]
            for name in gone:
                rows.pop(name, None)
        return gone
