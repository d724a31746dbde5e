"""Remembers which settings of which repository the user trusts.

Trust holds for one repository and for exactly the values that the user saw. Worktrees of a repository share it.
Each trusted repository has one file, `trust/HASH.json`, in mngr's home.
"""

from __future__ import annotations

import os

from mngr.base.errors import MngrError
from mngr.base.json_values import as_object
from mngr.base.model import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class TrustChange(Struct):
    """A setting that differs from the value that the user trusts. None stands for a missing setting."""

    key: str
    trusted: object = None
    current: object = None


def find_repository(root: str) -> str:
    """Return the path that identifies a project: the git directory that its worktrees share, or its root."""
    git_path = os.path.join(root, ".git")
    if os.path.isdir(git_path):
        return os.path.realpath(git_path)
    try:
        with open(git_path, encoding="utf-8") as file:
            kind, _, target = file.read(4096).partition(":")
        git_dir = os.path.join(root, target.strip())
        if kind != "gitdir":
            return os.path.realpath(root)
        with open(os.path.join(git_dir, "commondir"), encoding="utf-8") as file:
            return os.path.realpath(os.path.join(git_dir, file.read(4096).strip()))
    except (OSError, ValueError):
        return os.path.realpath(root)


def compute_digest(values: Mapping[str, object]) -> str:
    """Return the hash of settings that `mngr trust --hash` compares."""
    import hashlib
    import json

    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def save_trust(trust_dir: str, repository: str, values: Mapping[str, object]) -> None:
    """Trust these settings of a repository, and no others."""
    _save(trust_dir, repository, {"settings": values})


def save_trusted_hash(trust_dir: str, place: str, digest: str) -> None:
    """Trust the settings with this hash in a copy of the project that comes from `place`."""
    _save(trust_dir, place, {"settings": {}, "hash": digest})


def _save(trust_dir: str, repository: str, content: dict[str, object]) -> None:
    import json

    path = _get_path(trust_dir, repository)
    os.makedirs(trust_dir, mode=0o700, exist_ok=True)
    temporary_path = f"{path}.{os.getpid()}"
    with open(temporary_path, "w", encoding="utf-8") as file:
        json.dump({"v": 1, "repository": repository, **content}, file, indent=2, sort_keys=True)
    os.replace(temporary_path, path)


def delete_trust(trust_dir: str, repository: str) -> bool:
    """Stop trusting a repository. Return False when it was not trusted."""
    try:
        os.unlink(_get_path(trust_dir, repository))
    except FileNotFoundError:
        return False
    return True


def load_trusted(trust_dir: str, repository: str) -> dict[str, object]:
    """Return the settings of a repository that the user trusts."""
    return as_object(_load(trust_dir, repository).get("settings"))


def is_hash_trusted(trust_dir: str, place: str, values: Mapping[str, object]) -> bool:
    """True when the user trusts exactly these settings from `place` by their hash."""
    return _load(trust_dir, place).get("hash") == compute_digest(values)


def _load(trust_dir: str, repository: str) -> dict[str, object]:
    """Return the file of a repository, or an empty object when the user does not trust it."""
    import json

    path = _get_path(trust_dir, repository)
    try:
        with open(path, encoding="utf-8") as file:
            return as_object(json.load(file))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise MngrError(f"cannot read {path}: {error}", f"delete it and trust the project again: rm {path}") from None


def list_changes(trusted: Mapping[str, object], current: Mapping[str, object]) -> list[TrustChange]:
    """Return the settings that the user has not trusted as they are now. Removed settings need no trust."""
    return [
        TrustChange(key=key, trusted=trusted.get(key), current=value)
        for key, value in sorted(current.items())
        if key not in trusted or trusted[key] != value
    ]


def format_question(place: str, changes: list[TrustChange]) -> str:
    """Return the question whether the user trusts these settings of a project."""
    return f"The settings in {escape(place)} run commands or choose files:\n{describe_changes(changes)}\nDo you trust them?"


def describe_changes(changes: list[TrustChange]) -> str:
    """Return one line for each setting, with the trusted value if there was another one."""
    lines = []
    for change in changes:
        line = f"{escape(change.key)} = {format_value(change.current)}"
        if change.trusted is not None:
            line += f"  (you trusted: {format_value(change.trusted)})"
        lines.append(line)
    return "\n".join(lines)


def escape(text: str) -> str:
    """Return a text of a project in one line. Characters that could change the terminal are escaped."""
    return text if text.isascii() and text.isprintable() else ascii(text)[1:-1]


def format_value(value: object) -> str:
    """Return a value in one line. Characters that could change the terminal are escaped."""
    return ascii(value) if not isinstance(value, str) else ascii(value)[1:-1].join('""')


def _get_path(trust_dir: str, repository: str) -> str:
    import hashlib

    return os.path.join(trust_dir, hashlib.sha256(os.fsencode(repository)).hexdigest()[:24] + ".json")
