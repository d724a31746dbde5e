"""What somebody wants a new host to be like."""

from __future__ import annotations

import os

from mngr.base import names, shell
from mngr.base.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mngr.base.paths import Home


def get_author() -> list[str]:
    """Name and email of whoever works here, as git knows them: what agents elsewhere commit as."""
    where = os.getcwd()
    if where not in _author_cache:  # asked once for many hosts
        said = shell.run(["git", "config", "--null", "--get-regexp", r"^user\.(name|email)$"]).text
        rows = dict(row.partition("\n")[::2] for row in said.split("\0"))
        _author_cache[where] = [rows.get(f"user.{key}", "") for key in ("name", "email")]
    return _author_cache[where]


_author_cache: dict[str, list[str]] = {}


def get_original_options(home: Home, before: dict[str, Any]) -> dict[str, Any]:
    """What a host that is gone was made from, for another of its name; a snapshot only if that is still there."""
    options = dict(before.get("options") or {})
    if not os.path.isdir(os.path.join(home.snapshots, str(options.get("snapshot")))):
        options.pop("snapshot", None)
    return options


def reject_options(host: str, options: dict[str, Any]) -> None:
    """UsageError when something is asked of a host that is there already."""
    if options:
        key = next(iter(options))
        raise UsageError(f"{host} is there already, so {key} cannot be chosen", "leave it out, or make a new host")


def parse_network(wish: dict[str, Any]) -> str:
    """`on`, `off` or `allow=…`; UsageError for any other word, which must not open or close anything."""
    said = wish.get("network", True)
    text = {True: "on", False: "off"}[said] if isinstance(said, bool) else str(said)
    if not text.startswith("allow="):
        names.parse_network(text)
    return text


def parse_number(key: str, value: object, hint: str = "a number, 0 or more") -> float:
    """What a setting says; UsageError unless it is a number, 0 or more."""
    try:
        found = float(str(value))
    except ValueError:
        found = -1.0
    if not 0 <= found < 1e15:
        raise UsageError(f"{key} cannot be {value!r}", hint)
    return found
