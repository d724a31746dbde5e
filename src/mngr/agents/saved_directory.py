"""The files of a saved directory, and its description in `meta.json`."""

from __future__ import annotations

import json
import os
from typing import Any

from mngr.host.protocol import Host

META_FILE, AGENT_DIR = "meta.json", "agent"
PARTIAL_SUFFIX = ".part"


def write_meta(host: Host, directory: str, meta: dict[str, Any]) -> None:
    """Write the description of a saved directory, which `load_meta` reads."""
    host.write(os.path.join(directory, META_FILE), json.dumps(meta, indent=1).encode())


def load_meta(directory: str) -> dict[str, Any]:
    """Return the description of a saved directory. Raise ValueError when it is damaged."""
    try:
        with open(os.path.join(directory, META_FILE), encoding="utf-8") as file:
            meta = json.load(file)
    except OSError as error:
        raise ValueError(f"{META_FILE}: {error.strerror}") from None
    if not isinstance(meta, dict) or meta.get("v") != 1:
        raise ValueError(f"{META_FILE} was written by a newer mngr, or is damaged")
    return meta
