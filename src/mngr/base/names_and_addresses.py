"""Checks, parses and generates names and addresses: `[NAME][@[HOST][.PROVIDER]][:PATH]`."""

from __future__ import annotations

import os

from mngr.base.errors import UsageError
from mngr.base.model import Struct

_NAME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")
_HEX_DIGITS = frozenset("0123456789abcdef")
_HOST_CHARS = _NAME_CHARS | frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ.")
PROVIDER_NAMES = ("local", "ssh", "docker", "modal", "ray", "slurm")

_ADJECTIVES = (
    "amber ample brave brisk calm clear crisp deft eager early fair fleet fresh gentle glad grand keen "
    "kind light lively lucid merry mild neat nimble noble plain proud quick quiet ready sharp sleek "
    "snug solid spry steady stout sunny swift tidy true vivid warm wise witty"
).split()
_NOUNS = (
    "ant badger bat bear bee bison crab crane crow deer dove duck elk ermine falcon finch fox frog gecko "
    "goose hare hawk heron ibex jay kite koala lark lemur lion lynx marten mole moose moth newt otter owl "
    "panda puffin quail raven robin seal shrew sloth snail sparrow stoat swan tern toad trout vole wolf wren"
).split()


class Address(Struct):
    """The parts of an address. Every part may be missing."""

    name: str | None = None
    host: str | None = None
    provider: str | None = None
    path: str | None = None

    def __str__(self) -> str:
        location = ""
        if self.host is not None or self.provider is not None:
            location = "@" + (self.host or "") + (f".{self.provider}" if self.provider else "")
        return (self.name or "") + location + (f":{self.path}" if self.path is not None else "")


def is_agent_name(text: str) -> bool:
    """True when the text is a valid agent name: `[a-z0-9][a-z0-9_-]{0,62}`."""
    return 0 < len(text) < 64 and text[0] not in "_-" and _NAME_CHARS.issuperset(text)


def is_agent_id(text: str) -> bool:
    """True when the text has the form of an agent id: `a-` and 12 hex digits."""
    return len(text) == 14 and text.startswith("a-") and _HEX_DIGITS.issuperset(text[2:])


def is_number(text: str) -> bool:
    """True when the text has 1 to 11 ASCII digits. Texts from a host can be anything, also huge numbers."""
    return 0 < len(text) < 12 and text.isascii() and text.isdigit()


def is_host_name(text: str) -> bool:
    """True when the text is a valid host name."""
    return 0 < len(text) < 254 and text[0] not in "._-" and _HOST_CHARS.issuperset(text)


def parse_address(text: str, providers: tuple[str, ...] = PROVIDER_NAMES) -> Address:
    """Return the parts of an address, or raise UsageError with the reason why it is invalid."""
    agent_and_host, colon, path = text.partition(":")
    name, at_sign, location = agent_and_host.partition("@")
    if name and not is_agent_name(name):
        raise UsageError(*_explain_bad_name(name))
    host: str | None = None
    provider: str | None = None
    if at_sign:
        before_dot, dot, after_dot = location.rpartition(".")
        if dot and after_dot in providers:
            host, provider = before_dot or None, after_dot
        elif location.startswith("."):
            raise UsageError(f"there is no provider {location[1:]!r}", "use one of: " + ", ".join(providers))
        else:
            host = location or None
        if host is not None and not is_host_name(host):
            raise UsageError(
                f"{host!r} is not a valid host name", "write NAME@HOST, NAME@HOST.PROVIDER or NAME@.PROVIDER"
            )
        if host is None and provider is None:
            raise UsageError(f"nothing follows the @ in {text!r}", "write NAME@HOST or NAME@.PROVIDER")
    if not name and not at_sign:
        raise UsageError(f"{text!r} names neither an agent nor a host", "write NAME, NAME@HOST or @HOST")
    return Address(name=name or None, host=host, provider=provider, path=path if colon else None)


def check_name(name: str) -> str:
    """Return `name` if a new agent may have it, otherwise raise UsageError."""
    if is_agent_id(name):
        raise UsageError(f"{name!r} looks like an agent's id", "choose another name")
    if not is_agent_name(name):
        raise UsageError(*_explain_bad_name(name))
    return name


def _explain_bad_name(name: str) -> tuple[str, str]:
    """Return an error message and a hint for an invalid name."""
    import re

    fixed = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")[:63]
    hint = "use at most 63 lower-case letters, digits, - and _, and start with a letter or digit"
    return f"{name!r} is not a valid name", hint + (f"; for example {fixed!r}" if fixed else "")


def parse_network(text: str) -> tuple[str, list[tuple[str, int | None]]]:
    """Return the mode and the allowed destinations of `on`, `off` or `allow=HOST[:PORT],…`.

    A destination without a port allows every port.
    """
    mode, _, rest = text.partition("=")
    if text in ("on", "off"):
        return text, []
    if mode != "allow":
        raise UsageError(
            f"--network cannot be {text!r}", "use --network on, --network off or --network allow=HOST[:PORT],…"
        )
    return mode, [_parse_destination(word.strip()) for word in rest.split(",")]


def _parse_destination(word: str) -> tuple[str, int | None]:
    """Return the host and port of HOST, HOST:PORT, [ADDRESS] or [ADDRESS]:PORT."""
    import re

    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:]+))(?::(\d{1,5}))?", word, re.ASCII)
    if not match or not (match[1] or is_host_name(match[2])) or not 0 < int(match[3] or 1) < 65536:
        hint = "for example: --network allow=api.example.com:443,example.org,[::1]:8080"
        raise UsageError(f"--network allow: {word!r} does not have the form HOST or HOST:PORT", hint)
    return (match[1] or match[2]).lower(), int(match[3]) if match[3] else None


def generate_id() -> str:
    """Return a new random agent id."""
    return "a-" + os.urandom(6).hex()


def generate_name() -> str:
    """Return a random name of an adjective and an animal, such as `swift-otter`."""
    first_byte, second_byte = os.urandom(2)
    return f"{_ADJECTIVES[first_byte % len(_ADJECTIVES)]}-{_NOUNS[second_byte % len(_NOUNS)]}"
