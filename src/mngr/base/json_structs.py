"""Writes a Struct as JSON and reads it again. The annotations of its fields say what to expect.

The class's module must import the names in those annotations at run time, not only for type checkers.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from mngr.base.model import Struct

AnyStruct = TypeVar("AnyStruct", bound=Struct)
_hints_by_class: dict[type, dict[str, Any]] = {}


def encode(value: object) -> Any:
    """Return the JSON form of a Struct, also inside lists and objects."""
    if isinstance(value, Struct):
        return {name: encode(item) for name, item in value.to_dict().items()}
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    return value


def decode(cls: type[AnyStruct], data: object) -> AnyStruct:
    """Return the Struct that `encode` wrote. Skip unknown fields.

    Raise ValueError when a field is missing or has another type.
    """
    if not isinstance(data, dict):
        raise ValueError(f"{cls.__name__}: expected an object, not {data!r:.80}")
    hints = _get_hints(cls)
    values = {name: _decode_value(hints[name], data[name], f"{cls.__name__}.{name}") for name in hints if name in data}
    try:
        return cls(**values)
    except TypeError as error:
        raise ValueError(str(error)) from None


def _get_hints(cls: type[Struct]) -> dict[str, Any]:
    """Return the annotation of each field of a Struct class."""
    if cls not in _hints_by_class:
        hints = get_type_hints(cls, localns={"Any": Any})
        _hints_by_class[cls] = {name: hints[name] for name in cls._fields}
    return _hints_by_class[cls]


def _decode_value(hint: Any, value: object, place: str) -> object:
    """Return the value as the annotation describes it. `place` names the field in errors."""
    origin = get_origin(hint)
    if hint in (Any, object):
        return value
    if origin in (Union, types.UnionType):
        return _decode_union(get_args(hint), value, place)
    if origin in (list, Sequence, tuple) and isinstance(value, list):
        items = [_decode_value(get_args(hint)[0], item, place) for item in value]
        return tuple(items) if origin is tuple else items
    if origin in (dict, Mapping) and isinstance(value, dict):
        return {key: _decode_value(get_args(hint)[1], item, place) for key, item in value.items()}
    if isinstance(hint, type) and issubclass(hint, Struct):
        return decode(hint, value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return value
    if hint is type(None) and value is None:
        return None
    if isinstance(hint, type) and isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    raise ValueError(f"{place}: unexpected value {value!r:.80}")


def _decode_union(hints: tuple[Any, ...], value: object, place: str) -> object:
    """Return the value by the first annotation that fits."""
    for hint in hints:
        try:
            return _decode_value(hint, value, place)
        except ValueError:
            continue
    raise ValueError(f"{place}: unexpected value {value!r:.80}")
