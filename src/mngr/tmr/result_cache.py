"""What was found out once and need not be found out again: small JSON files under names that say what they depend on."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from typing import Any

_CACHE_DIR = os.path.join(".mngr", "cache")
_MAX_AGE_DAYS = 30  # that an entry is kept without being asked for


class ResultCache:
    """One kind of entries of a project. What cannot be read is not there; it only saves time."""

    def __init__(self, root: str, kind: str) -> None:
        self._root, self._kind = root, kind
        self._dir = os.path.join(root, _CACHE_DIR, kind)
        self._delete_old_entries()

    def find(self, key: object) -> Any:
        """What was put there under the key, or None."""
        path = self._path(key)
        try:
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
            os.utime(path)
        except (OSError, ValueError):
            return None
        return found

    def put(self, key: object, value: Any) -> None:
        """Keep it; a full disk is no reason to stop."""
        path = self._path(key)
        try:
            make_cache_dir(self._root, self._kind)
            with open(f"{path}.{os.getpid()}", "w", encoding="utf-8") as file:
                json.dump(value, file)
            os.replace(f"{path}.{os.getpid()}", path)
        except OSError:
            return

    def _path(self, key: object) -> str:
        text = json.dumps(key, sort_keys=True)
        return os.path.join(self._dir, hashlib.sha256(text.encode()).hexdigest()[:32] + ".json")

    def _delete_old_entries(self) -> None:
        """Take away what nobody has asked for in a month."""
        with contextlib.suppress(OSError):
            for entry in os.scandir(self._dir):
                if time.time() - entry.stat().st_mtime > _MAX_AGE_DAYS * 86400:
                    os.unlink(entry.path)


def make_cache_dir(root: str, kind: str) -> str:
    """The directory of a kind, which git never sees."""
    place = os.path.join(root, _CACHE_DIR, kind)
    os.makedirs(place, exist_ok=True)
    ignore = os.path.join(root, _CACHE_DIR, ".gitignore")
    if not os.path.exists(ignore):
        with open(ignore, "w", encoding="utf-8") as file:
            file.write("*\n")
    return place
