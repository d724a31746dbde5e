"""Writes a program's files into an agent's directory, and copies files of the user's own configuration."""

from __future__ import annotations

import json
import os

from mngr.base.errors import MngrError, NotFound
from mngr.base.untrusted_json import as_object, as_objects, parse_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mngr.base.model import AgentRecord
    from mngr.base.untrusted_json import JsonObject
    from mngr.host.protocol import Host


def make_dirs(host: Host, record: AgentRecord, *names: str) -> None:
    """Create directories inside the agent's directory; raise MngrError if that fails."""
    argv = ["sh", "-c", 'cd "$1" && shift && mkdir -p "$@"', "make", host.home.agent_dir(record.id), *names]
    result = host.run(argv)
    if result.code:
        raise MngrError(
            f"cannot create the directory of {record.name}: {result.error_line}",
            f"check the host: mngr doctor @{host.name}",
        )


def write_file(host: Host, record: AgentRecord, name: str, data: bytes) -> None:
    """Write a file in the agent's directory."""
    host.write(os.path.join(host.home.agent_dir(record.id), name), data)


def read_json(host: Host, record: AgentRecord, name: str) -> JsonObject:
    """Return the JSON object in a file of the agent's directory, or {} when it is missing or is not a JSON object."""
    try:
        return as_object(parse_json(host.read(os.path.join(host.home.agent_dir(record.id), name))))
    except (NotFound, ValueError):
        return {}


def read_user_json(path: str) -> JsonObject:
    """Return a JSON file of the user's own configuration, or {} when it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return as_object(parse_json(file.read()))
    except (OSError, ValueError):
        return {}


def copy_to_agent(host: Host, record: AgentRecord, source: str, name: str) -> None:
    """Copy a file or a whole directory of the user to `name` in the agent's directory."""
    copies = [(source, name)] if os.path.isfile(source) else []
    for parent, _, names in os.walk(source):
        target_dir = os.path.normpath(os.path.join(name, os.path.relpath(parent, source)))
        copies += [
            (os.path.join(parent, file_name), os.path.join(target_dir, file_name)) for file_name in sorted(names)
        ]
    for path, target in copies:
        if os.path.isfile(path):
            make_dirs(host, record, os.path.dirname(target) or ".")
            with open(path, "rb") as file:
                write_file(host, record, target, file.read())


def copy_login(host: Host, record: AgentRecord, path: str, name: str, renewal: tuple[str, str | None]) -> None:
    """Copy a login file of the user without the part that renews the login."""
    login = read_user_json(path)
    if not login:
        copy_to_agent(host, record, path, name)  # A file in another format has no renewal part.
        return
    write_file(host, record, name, json.dumps(_replace_renewal(login, *renewal)).encode())


def _replace_renewal(table: JsonObject, key: str, replacement: str | None) -> JsonObject:
    """Return a copy of a login without the part that renews it, or with its replacement."""
    copied: JsonObject = {}
    for name, value in table.items():
        if name != key:
            copied[name] = _replace_renewal(value, key, replacement) if isinstance(value, dict) else value
        elif replacement is not None:
            copied[name] = replacement
    return copied


def can_renew(login: JsonObject, key: str, replacement: str | None) -> bool:
    """True when a login contains the part that renews it, so it is not a copy that mngr made."""
    tables = [login, *as_objects(list(login.values()))]
    return any(table.get(key, replacement) != replacement for table in tables)


def get_conversation(program: str, root: str, name: str, get_name: Callable[[str], str]) -> str:
    """Return the file below `root` whose conversation is called `name`; raise NotFound if there is none.

    `get_name` returns the conversation's name for a file, or an empty text when the file holds no conversation.
    """
    files = [os.path.join(parent, file_name) for parent, _, names in os.walk(root) for file_name in names]
    names_by_path = {path: get_name(path) for path in files if path.endswith(".jsonl")}
    conversations = [path for path in files if names_by_path.get(path)]
    for path in conversations:
        if names_by_path[path] == name:
            return path
    recent = ", ".join(names_by_path[path] for path in sorted(conversations, key=os.path.getmtime)[-3:])
    hint = (
        f"use the id of a conversation, for example: {recent}"
        if recent
        else f"leave out --resume: there are no conversations in {root}"
    )
    raise NotFound(f"{program} has no conversation {name!r} on this machine", hint)
