"""A cache of results as small JSON files. The name of a file is a hash of everything that its result depends on."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from typing import Any

from mngr.base.json_structs import AnyStruct, decode, encode
from mngr.base.paths import Home
from mngr.base.trust.project_trust import find_repository

_MAX_AGE_DAYS = 30  # days that an unused entry is kept


class ResultCache:
    """The entries of one kind in a directory. The cache only saves time: an unreadable entry counts as missing."""

    def __init__(self, directory: str, kind: str) -> None:
        self._dir = os.path.join(directory, kind)
        self._delete_old_entries()

    def find(self, key: object) -> Any:
        """Return the value of the key, or None."""
        path = self._path(key)
        try:
            with open(path, encoding="utf-8") as file:
                value = json.load(file)
            os.utime(path)
        except (OSError, ValueError):
            return None
        return value

    def find_struct(self, key: object, cls: type[AnyStruct]) -> AnyStruct | None:
        """Return the Struct of the key, or None. An entry of another form counts as missing."""
        try:
            return decode(cls, self.find(key))
        except ValueError:
            return None

    def put(self, key: object, value: object) -> None:
        """Save the value, which may be a Struct. A full disk is ignored."""
        path = self._path(key)
        try:
            os.makedirs(self._dir, exist_ok=True)
            with open(f"{path}.{os.getpid()}", "w", encoding="utf-8") as file:
                json.dump(encode(value), file)
            os.replace(f"{path}.{os.getpid()}", path)
        except OSError:
            return

    def _path(self, key: object) -> str:
        """Return the file of a key."""
        text = json.dumps(key, sort_keys=True)
        return os.path.join(self._dir, hashlib.sha256(text.encode()).hexdigest()[:32] + ".json")

    def _delete_old_entries(self) -> None:
        """Delete the entries that were not used for a month."""
        with contextlib.suppress(OSError):
            for entry in os.scandir(self._dir):
                if time.time() - entry.stat().st_mtime > _MAX_AGE_DAYS * 86400:
                    os.unlink(entry.path)


def get_cache_dir(home: Home, root: str) -> str:
    """Return the directory with the cached results of a project.

    It is in mngr's home: a branch or a repository could contain results that mngr never saw.
    """
    repository = hashlib.sha256(os.fsencode(find_repository(root))).hexdigest()[:24]
    return os.path.join(home.cache, "results", repository)
