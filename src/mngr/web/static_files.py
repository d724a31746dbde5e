"""The files that all pages share, and copies of them for pages that open from disk."""

from __future__ import annotations

import os
import shutil

STATIC_DIR = os.path.join(os.path.dirname(__file__), "static")


def copy_static(target: str) -> None:
    """Copy the files that all pages share to `target`, unless they are up to date there."""
    static_dir = os.path.join(target, "static")
    os.makedirs(static_dir, exist_ok=True)
    for name in os.listdir(STATIC_DIR):
        source, copy = os.path.join(STATIC_DIR, name), os.path.join(static_dir, name)
        try:
            is_current = os.stat(copy).st_mtime_ns == os.stat(source).st_mtime_ns
        except FileNotFoundError:
            is_current = False
        if not is_current:
            temporary = f"{copy}.{os.getpid()}.new"
            shutil.copyfile(source, temporary)
            shutil.copystat(source, temporary)
            os.replace(temporary, copy)
