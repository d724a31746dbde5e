"""Keeps the tests of a commit from changing what mngr uses in a clean room. `clean_room_program.py` imports it there.

Standard library only, Python 3.9 or newer. No code of the commit or of set-up runs at the same time.
"""

from __future__ import annotations

import os
import shutil

_MAX_CONFIG_BYTES = 1 << 16
_OWN_OUTPUTS = ("tmr", "clean-room")  # mngr's own programs in the directory of outputs


def clean_outputs(outputs: str) -> None:
    """Delete what earlier commands left in the directory of outputs, so that a test cannot leave itself a note."""
    for name in os.listdir(outputs):
        path = os.path.join(outputs, name)
        if name in _OWN_OUTPUTS:
            continue
        if os.path.islink(path) or not os.path.isdir(path):
            os.unlink(path)
        else:
            remove_tree(path)


def remove_tree(path: str) -> None:
    """Delete a directory, even if a test removed permissions in it."""
    for folder, _, _ in os.walk(path):
        os.chmod(folder, 0o700)
    shutil.rmtree(path, ignore_errors=True)


def reset_git_config() -> bool:
    """Write the repository's configuration again: set-up may have added programs that git would run outside the sandbox.

    Return False if the workspace has no repository of its own.
    """
    if not os.path.isdir(".git") or os.path.islink(".git") or os.path.islink(".git/info"):
        return False
    version, extensions = 0, ""
    if os.path.isfile(".git/config") and os.path.getsize(".git/config") <= _MAX_CONFIG_BYTES:
        with open(".git/config", encoding="utf-8", errors="replace") as file:
            if "objectformat = sha256" in file.read().lower():
                version, extensions = 1, "[extensions]\n\tobjectFormat = sha256\n"
    temporary_path = f".git/config.{os.getpid()}"
    with open(temporary_path, "x", encoding="utf-8") as file:
        file.write(f"[core]\n\trepositoryFormatVersion = {version}\n\tbare = false\n{extensions}")
    os.replace(temporary_path, ".git/config")
    for path in (".git/info/attributes", ".git/config.worktree", ".git/objects/info/alternates"):
        if os.path.lexists(path):
            os.unlink(path)
    return True


def identify(path: str) -> str:
    """Return the identity of a directory of the workspace. Return "" if it is missing, or if a link leads to it."""
    parts = path.split("/")
    if any(os.path.islink("/".join(parts[:end])) for end in range(1, len(parts) + 1)):
        return ""
    try:
        status = os.lstat(path)
    except OSError:
        return ""
    return f"{status.st_dev}-{status.st_ino}"


def find_replaced_dir(identities: dict[str, str]) -> str:
    """Return a sentence about a directory that is no longer the one that set-up created, or "".

    A sandbox would follow a link in its place, and show the tests what the link leads to.
    """
    for path, identity in identities.items():
        if identify(path) != identity:
            return f"the commit replaces {path}, which set-up created"
    return ""


def find_program(name: str, env: dict[str, str]) -> str:
    """Return the path of a program on the command's PATH, which can differ from this process's PATH."""
    folders = [] if "/" in name else env.get("PATH", os.defpath).split(":")
    paths = [os.path.join(folder, name) for folder in folders]
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), name)


def read_report(path: str, most: int) -> str:
    """Return at most `most` bytes of a report, decoded."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            data = file.read(most)
    except OSError:
        return ""
    return data.decode("utf-8", "replace")
