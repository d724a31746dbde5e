"""A PATH with all programs of this machine except bubblewrap."""

from __future__ import annotations

import os
from pathlib import Path


def make_path_without_bwrap(folder: Path, path: str) -> str:
    """Fill a folder with links to all programs on `path` except bwrap, and return the folder as a PATH."""
    folder.mkdir()
    for directory in filter(os.path.isdir, path.split(":")):
        for name in os.listdir(directory):
            if name != "bwrap" and not (folder / name).is_symlink():
                (folder / name).symlink_to(os.path.join(directory, name))
    return str(folder)
