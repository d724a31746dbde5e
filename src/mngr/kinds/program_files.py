"""What a kind writes for its program into an agent's directory, and what it takes of the user's own."""

from __future__ import annotations

import json
import os

from mngr.base.errors import MngrError, NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mngr.base.model import AgentRecord
    from mngr.host.protocol import Host


def make_dirs(host: Host, record: AgentRecord, *names: str) -> None:
    """Directories in the agent's own; MngrError when they cannot be had."""
    argv = ["sh", "-c", 'cd "$1" && shift && mkdir -p "$@"', "make", host.home.agent_dir(record.id), *names]
    made = host.run(argv)
    if made.code:
        raise MngrError(f"cannot make the directory of {record.name}: {made.error_line}", "see: mngr doctor")


def write_file(host: Host, record: AgentRecord, name: str, data: bytes) -> None:
    """A file of the agent's own directory."""
    host.write(os.path.join(host.home.agent_dir(record.id), name), data)


def read_json(host: Host, record: AgentRecord, name: str) -> dict[str, Any]:
    """What such a file holds; nothing when it is not there or no JSON object."""
    try:
        found = json.loads(host.read(os.path.join(host.home.agent_dir(record.id), name)))
    except (NotFound, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def read_user_json(path: str) -> dict[str, Any]:
    """A JSON file of the user's own configuration; nothing when there is none that can be read."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def copy_to_agent(host: Host, record: AgentRecord, source: str, name: str) -> None:
    """A file of the user's, or all in a directory of his, under a name in the agent's own directory."""
    found = [(source, name)] if os.path.isfile(source) else []
    for top, _, names in os.walk(source):
        below = os.path.normpath(os.path.join(name, os.path.relpath(top, source)))
        found += [(os.path.join(top, each), os.path.join(below, each)) for each in sorted(names)]
    for path, target in found:
        if os.path.isfile(path):
            make_dirs(host, record, os.path.dirname(target) or ".")
            with open(path, "rb") as file:
                write_file(host, record, target, file.read())


def copy_login(host: Host, record: AgentRecord, path: str, name: str, renewal: tuple[str, str | None]) -> None:
    """A file of the user's by which a program is logged in, without the part that renews the login."""
    found = read_user_json(path)
    if not found:
        copy_to_agent(host, record, path, name)  # of another form; it has no such part
        return
    _remove_renewal_key(found, *renewal)
    write_file(host, record, name, json.dumps(found).encode())


def _remove_renewal_key(table: dict[str, Any], key: str, instead: str | None) -> None:
    if key in table and instead is None:
        del table[key]
    elif key in table:
        table[key] = instead
    for value in table.values():
        if isinstance(value, dict):
            _remove_renewal_key(value, key, instead)


def can_renew(login: dict[str, Any], key: str, instead: str | None) -> bool:
    """Whether a login has the part that renews it, so that it is none of our copies."""
    tables = [login, *(value for value in login.values() if isinstance(value, dict))]
    return any(table.get(key, instead) != instead for table in tables)


def get_conversation(program: str, place: str, name: str, name_of: Callable[[str], str]) -> str:
    """The file below `place` whose conversation has this name; `name_of` a file is empty when it is none. NotFound."""
    files = [os.path.join(top, each) for top, _, names in os.walk(place) for each in names]
    found = {path: called for path in files if path.endswith(".jsonl") and (called := name_of(path))}
    for path, called in found.items():
        if called == name:
            return path
    recent = ", ".join(found[path] for path in sorted(found, key=os.path.getmtime)[-3:])
    hint = f"the latest there: {recent}" if recent else f"there is none in {place}"
    raise NotFound(f"{program} has no conversation {name!r} here", hint)
