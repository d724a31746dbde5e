"""A cache of results as small JSON files. The name of a file is a hash of everything that its result depends on."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from typing import Any

_CACHE_DIR = os.path.join(".mngr", "cache")
_MAX_AGE_DAYS = 30  # days that an unused entry is kept


class ResultCache:
    """The entries of one kind in a project. The cache only saves time: an unreadable entry counts as missing."""

    def __init__(self, root: str, kind: str) -> None:
        self._root, self._kind = root, kind
        self._dir = os.path.join(root, _CACHE_DIR, kind)
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

    def put(self, key: object, value: Any) -> None:
        """Save the value. A full disk is ignored."""
        path = self._path(key)
        try:
            make_cache_dir(self._root, self._kind)
            with open(f"{path}.{os.getpid()}", "w", encoding="utf-8") as file:
                json.dump(value, file)
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


def make_cache_dir(root: str, kind: str) -> str:
    """Create the cache directory of a kind, ignored by git, and return it."""
    cache_dir = os.path.join(root, _CACHE_DIR, kind)
    os.makedirs(cache_dir, exist_ok=True)
    ignore = os.path.join(root, _CACHE_DIR, ".gitignore")
    if not os.path.exists(ignore):
        with open(ignore, "w", encoding="utf-8") as file:
            file.write("*\n")
    return cache_dir
