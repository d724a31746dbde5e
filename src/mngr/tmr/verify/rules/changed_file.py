"""One file of a commit, before and after."""

from __future__ import annotations

from mngr.base.model import Struct


class ChangedFile(Struct):
    """One path that a commit changes, with both texts where they are texts."""

    path: str
    status: str = "M"  # A added, M changed, D deleted, R renamed, T of another type
    old_path: str = ""  # of a renamed file
    old_mode: str = "100644"
    new_mode: str = "100644"
    old_size: int = 0
    size: int = 0
    binary: bool = False
    old: str | None = None  # the text before; for a symbolic link, its target
    new: str | None = None
