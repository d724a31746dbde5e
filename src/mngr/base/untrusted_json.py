"""Reads values from parsed JSON whose shape nobody guarantees. A value of another type counts as missing."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    JsonObject = dict[str, object]


_MAX_NUMBER = 1e300  # Larger numbers, and infinite ones such as 1e999, do not survive conversions and sums.


def parse_json(text: str | bytes) -> Any:
    """Return the value in a JSON text from an agent, a host or a branch. Raise ValueError for everything else."""
    import json

    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def as_object(value: object) -> JsonObject:
    """Return the value if it is an object, else an empty object."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    """Return the value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def as_objects(value: object) -> list[JsonObject]:
    """Return the objects in the value if it is a list, else an empty list."""
    return [item for item in as_list(value) if isinstance(item, dict)]


def find_text(row: Mapping[str, object], key: str) -> str | None:
    """Return the text under `key`, or None."""
    value = row.get(key)
    return value if isinstance(value, str) else None


def get_text(row: Mapping[str, object], key: str, default: str = "") -> str:
    """Return the text under `key`, or the default."""
    value = row.get(key)
    return value if isinstance(value, str) else default


def find_number(row: Mapping[str, object], key: str) -> float | None:
    """Return the number under `key`, or None. A boolean is not a number, and neither is an infinite value."""
    value = row.get(key)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return value if -_MAX_NUMBER < value < _MAX_NUMBER else None


def find_int(row: Mapping[str, object], key: str) -> int | None:
    """Return the whole number under `key`, or None. A boolean is not a number."""
    value = row.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def get_int(row: Mapping[str, object], key: str, default: int = 0) -> int:
    """Return the number under `key` without its fraction, or the default."""
    value = find_number(row, key)
    return default if value is None else int(value)


def get_object(row: Mapping[str, object], key: str) -> JsonObject:
    """Return the object under `key`, or an empty object."""
    return as_object(row.get(key))


def get_objects(row: Mapping[str, object], key: str) -> list[JsonObject]:
    """Return the objects in the list under `key`, or an empty list."""
    return as_objects(row.get(key))
