"""Replaces `typing.Protocol` and `typing.runtime_checkable` at run time, because importing `typing` costs 10 ms.

Modules on the start-up path import both from `typing` for the type checker only, and from here otherwise.
"""

from __future__ import annotations


class _ProtocolType(type):
    """Makes `isinstance(thing, SomeProtocol)` true for every object that has all attributes of the protocol."""

    def __instancecheck__(cls, instance: object) -> bool:
        if Protocol not in cls.__bases__:  # A class that implements a protocol is an ordinary class.
            return super().__instancecheck__(instance)
        names = {*cls.__dict__, *cls.__dict__.get("__annotations__", {})}
        return all(hasattr(instance, name) for name in names if not name.startswith("__"))


class Protocol(metaclass=_ProtocolType):
    """The base class of protocols whose members `isinstance` looks for. A protocol extends no other protocol."""


def runtime_checkable(protocol: type) -> type:
    """Return the protocol unchanged: `isinstance` works with all of them."""
    return protocol
