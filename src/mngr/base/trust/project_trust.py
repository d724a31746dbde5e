"""Remembers which settings of which repository the user trusts.

Trust holds for one repository and for exactly the values that the user saw. Worktrees of a repository share it.
Each trusted repository has one file, `trust/HASH.json`, in mngr's home. The file and the repository's git directory
contain the same random id, so that another repository in the same place is not trusted.
"""

from __future__ import annotations

import os

from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.base.paths import read_plain_file
from mngr.base.untrusted_json import as_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


_ID_FILE = "mngr-id"  # in the git directory, where no clone and no commit can put a file


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
        if _is_git_dir(git_dir):  # of a submodule, or from `git init --separate-git-dir`
            return os.path.realpath(git_dir)
        with open(os.path.join(git_dir, "commondir"), encoding="utf-8") as file:
            return os.path.realpath(os.path.join(git_dir, file.read(4096).strip()))
    except (OSError, ValueError):
        return os.path.realpath(root)


def _is_git_dir(path: str) -> bool:
    """True for a git directory with its own objects, which the git directory of a worktree does not have."""
    return os.path.isfile(os.path.join(path, "HEAD")) and os.path.isdir(os.path.join(path, "objects"))


def _find_id(repository: str) -> str | None:
    """Return the random id of a repository, or None when it has none: nobody has trusted it, or it is not from git."""
    if not _is_git_dir(repository):
        return None
    try:
        return read_plain_file(os.path.join(repository, _ID_FILE), 100).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MngrError(
            f"cannot read {repository}/{_ID_FILE}: {error.strerror}", f"delete it: rm {repository}/{_ID_FILE}"
        ) from None


def _create_id(repository: str) -> str:
    """Write a random id into a git directory and return it. Of two writers, the first one wins."""
    path = os.path.join(repository, _ID_FILE)
    new_id = os.urandom(16).hex()
    temporary_path = f"{path}.{os.getpid()}"
    try:
        with open(os.open(temporary_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w") as file:
            file.write(new_id + "\n")
        try:
            os.link(temporary_path, path)
        except FileExistsError:
            return _find_id(repository) or ""
        finally:
            os.unlink(temporary_path)
    except OSError as error:
        from mngr.base.shell import suggest_disk_check

        raise MngrError(f"cannot write {path}: {error.strerror}", suggest_disk_check(repository)) from None
    return new_id


def compute_digest(values: Mapping[str, object]) -> str:
    """Return the hash of settings that `mngr trust --hash` compares."""
    import hashlib
    import json

    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def save_trust(trust_dir: str, repository: str, values: Mapping[str, object]) -> None:
    """Trust these settings of a repository, and no others."""
    content: dict[str, object] = {"settings": values}
    if _is_git_dir(repository):
        content["id"] = _find_id(repository) or _create_id(repository)
    _save(trust_dir, repository, content)


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
    content = _load(trust_dir, repository)
    if content.get("id") != _find_id(repository):
        return {}  # Another repository was here when the user trusted its settings.
    return as_object(content.get("settings"))


def is_trusted_repository(trust_dir: str, repository: str) -> bool:
    """True when the user has agreed to trust this repository, whatever its settings are."""
    content = _load(trust_dir, repository)
    return "settings" in content and content.get("id") == _find_id(repository)


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
    """Return the question whether the user trusts these settings of a project, or its code if there are none."""
    if not changes:
        return f"mngr will run code of {escape(place)} on this machine, for example its tests.\nDo you trust it?"
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
