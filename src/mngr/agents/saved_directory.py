"""The files of a saved directory, and its description in `meta.json`."""

from __future__ import annotations

import json
import os

from mngr.base.json_structs import decode, encode
from mngr.base.model import AgentRecord, Struct
from mngr.base.untrusted_json import as_object, parse_json
from mngr.host import record_store
from mngr.host.protocol import Host

META_FILE, AGENT_DIR = "meta.json", "agent"
PARTIAL_SUFFIX = ".part"


class SavedState(Struct):
    """The description of a saved directory: whose state it holds, and what a restore has to know."""

    v: int = 1
    id: str
    name: str
    at: str  # when it was saved
    why: str  # the operation: destroy, snapshot, clone, migrate or host gone
    was_running: bool = False
    record: AgentRecord | None = None  # None for a host, and for an agent whose record is damaged
    damage: str | None = None  # the reason why the record cannot be read
    saved: str = "none"  # how the work dir is saved: git, files or none
    base: str | None = None
    head: str | None = None
    branch: str | None = None
    refs: dict[str, str] = {}
    form: str = "sha1"  # git's object format
    git_dir: str | None = None  # where the git dir was
    umask: str = "022"
    missing: list[str] = []  # tracked files that were deleted
    dirty: bool = False
    unpulled: int = 0
    ignored_bytes: int = 0
    prerequisites: list[str] = []  # commits of the source that the saved commits build on
    new_objects: int = 0
    staged: bool = False  # it was saved from a local copy of a remote agent
    leaving: bool = False  # the agent's host has not confirmed yet that the agent is removed
    lost: str | None = None  # the reason why there is nothing to restore
    work_dir: str | None = None  # the work dir of an agent without a record, which mngr left alone
    host: dict[str, object] | None = None  # the provider's own facts about a snapshot of a host


def write_saved_state(host: Host, directory: str, saved: SavedState) -> None:
    """Write the description of a saved directory, which `load_saved_state` reads."""
    host.write(os.path.join(directory, META_FILE), json.dumps(encode(saved), indent=1).encode())


def load_saved_state(directory: str) -> SavedState:
    """Return the description of a saved directory. Raise ValueError when it is damaged."""
    try:
        with open(os.path.join(directory, META_FILE), encoding="utf-8") as file:
            data = as_object(parse_json(file.read()))
    except OSError as error:
        raise ValueError(f"{META_FILE}: {error.strerror}") from None
    if data.get("v") != 1:
        raise ValueError(f"{META_FILE} is damaged, or a newer mngr wrote it")
    record_data = data.pop("record", None)
    saved = decode(SavedState, data)
    if record_data is None:
        return saved
    try:
        return saved.replace(record=record_store.decode_record(json.dumps(record_data)))
    except ValueError as error:
        return saved.replace(damage=str(error))
