"""Writes a Struct as JSON and reads it again. The annotations of its fields say what to expect.

The class's module must import the names in those annotations at run time, not only for type checkers.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from mngr.base.model import Struct

AnyStruct = TypeVar("AnyStruct", bound=Struct)
Decoder = Callable[[object], object]
_NO_TYPES: frozenset[type] = frozenset()
_PLAIN_TYPES = frozenset((str, int, float, bool))
# For each field of a class: its name, the types whose values stay as they are, and the function for other values.
_decoders_by_class: dict[type, list[tuple[str, frozenset[type], Decoder]]] = {}


def encode(value: object) -> Any:
    """Return the JSON form of a Struct, also inside lists and objects."""
    if value is None or type(value) in _PLAIN_TYPES:  # most values
        return value
    if isinstance(value, Struct):
        if type(value).to_dict is not Struct.to_dict:  # the class has its own JSON form
            return {name: encode(item) for name, item in value.to_dict().items()}
        fields = value.__dict__
        return {
            name: item if (item := fields[name]) is None or type(item) in _PLAIN_TYPES else encode(item)
            for name in value._fields
        }
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    return value


def encode_briefly(value: object) -> Any:
    """Return the JSON form without the fields that have their default. `decode` restores them."""
    if value is None or type(value) in _PLAIN_TYPES:
        return value
    if isinstance(value, Struct):
        fields, defaults = value.__dict__, value._defaults
        return {
            name: encode_briefly(fields[name])
            for name in value._fields
            if name not in defaults or fields[name] != defaults[name]
        }
    if isinstance(value, Mapping):
        return {key: encode_briefly(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode_briefly(item) for item in value]
    return value


def decode(cls: type[AnyStruct], data: object) -> AnyStruct:
    """Return the Struct that `encode` or `encode_briefly` wrote. Skip unknown fields.

    Raise ValueError when a field is missing or has another type.
    """
    if not isinstance(data, dict):
        raise ValueError(f"{cls.__name__}: expected an object, not {data!r:.80}")
    decoders = _decoders_by_class.get(cls) or _make_field_decoders(cls)
    values = cls._defaults.copy()
    for name, plain_types, decode_field in decoders:
        if name in data:
            value = data[name]
            values[name] = value if type(value) in plain_types else decode_field(value)
    try:
        return cls.from_fields(values)
    except TypeError as error:
        raise ValueError(str(error)) from None


def _make_field_decoders(cls: type[Struct]) -> list[tuple[str, frozenset[type], Decoder]]:
    """Return a function for each field of a Struct class, which checks and converts the field's value."""
    hints = get_type_hints(cls, localns={"Any": Any})
    _decoders_by_class[cls] = [
        (name, _list_plain_types(hints[name]), _make_decoder(hints[name], f"{cls.__name__}.{name}"))
        for name in cls._fields
    ]
    return _decoders_by_class[cls]


def _list_plain_types(hint: Any) -> frozenset[type]:
    """Return the types whose values need no conversion."""
    if get_origin(hint) in (Union, types.UnionType):
        return _NO_TYPES.union(*map(_list_plain_types, get_args(hint)))
    if hint is float:
        return frozenset((float, int))
    return frozenset((hint,)) if hint in (*_PLAIN_TYPES, type(None)) else _NO_TYPES


def _make_decoder(hint: Any, place: str) -> Decoder:
    """Return a function for values of an annotation. `place` names the field in errors."""
    origin = get_origin(hint)
    if hint in (Any, object):
        return lambda value: value
    if origin in (Union, types.UnionType):
        return _make_union_decoder(hint, place)
    if origin in (list, Sequence, tuple):
        return _make_list_decoder(hint, place)
    if origin in (dict, Mapping):
        return _make_object_decoder(hint, place)
    if isinstance(hint, type) and issubclass(hint, Struct):
        return lambda value: decode(hint, value)
    return _make_plain_decoder(hint, place)


def _make_plain_decoder(hint: Any, place: str) -> Decoder:
    accepted = {float: (float, int), None: (type(None),)}.get(hint, (hint,))

    def decode_plain(value: object) -> object:
        if type(value) in accepted:  # a bool is no int
            return value
        raise _make_error(place, value)

    return decode_plain


def _make_list_decoder(hint: Any, place: str) -> Decoder:
    decode_item, is_tuple = _make_decoder(get_args(hint)[0], place), get_origin(hint) is tuple

    def decode_list(value: object) -> object:
        if not isinstance(value, list):
            raise _make_error(place, value)
        items = [decode_item(item) for item in value]
        return tuple(items) if is_tuple else items

    return decode_list


def _make_object_decoder(hint: Any, place: str) -> Decoder:
    item_hint = get_args(hint)[1]
    decode_item = None if item_hint in (Any, object) else _make_decoder(item_hint, place)

    def decode_object(value: object) -> object:
        if not isinstance(value, dict):
            raise _make_error(place, value)
        if decode_item is None:
            return value.copy()
        return {key: decode_item(item) for key, item in value.items()}

    return decode_object


def _make_union_decoder(hint: Any, place: str) -> Decoder:
    """Return a function that returns the value by the first annotation that fits."""
    decoders = [_make_decoder(part, place) for part in get_args(hint) if part is not type(None)]
    accepts_none = type(None) in get_args(hint)

    def decode_union(value: object) -> object:
        if value is None and accepts_none:
            return None
        for decode_part in decoders:
            try:
                return decode_part(value)
            except ValueError:
                continue
        raise _make_error(place, value)

    return decode_union


def _make_error(place: str, value: object) -> ValueError:
    return ValueError(f"{place}: unexpected value {value!r:.80}")
