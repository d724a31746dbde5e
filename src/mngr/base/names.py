"""Names and addresses: `[NAME][@[HOST][.PROVIDER]][:PATH]`."""

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
    """The parts of an address; every part may be missing."""

    name: str | None = None
    host: str | None = None
    provider: str | None = None
    path: str | None = None

    def __str__(self) -> str:
        where = ""
        if self.host is not None or self.provider is not None:
            where = "@" + (self.host or "") + (f".{self.provider}" if self.provider else "")
        return (self.name or "") + where + (f":{self.path}" if self.path is not None else "")


def is_agent_name(text: str) -> bool:
    """Whether an agent can be called that: `[a-z0-9][a-z0-9_-]{0,62}`."""
    return 0 < len(text) < 64 and text[0] not in "_-" and _NAME_CHARS.issuperset(text)


def is_agent_id(text: str) -> bool:
    """Whether this is an id of ours: `a-` and 12 hex digits."""
    return len(text) == 14 and text.startswith("a-") and _HEX_DIGITS.issuperset(text[2:])


def is_number(text: str) -> bool:
    """Whether this is a number as a host may tell one: digits, and not so many that nobody can reckon with them."""
    return 0 < len(text) < 12 and text.isascii() and text.isdigit()


def is_host_name(text: str) -> bool:
    """Whether a host can be called that."""
    return 0 < len(text) < 254 and text[0] not in "._-" and _HOST_CHARS.issuperset(text)


def parse_address(text: str, providers: tuple[str, ...] = PROVIDER_NAMES) -> Address:
    """The address in `text`; UsageError says what is wrong with it."""
    front, colon, path = text.partition(":")
    name, at, where = front.partition("@")
    if name and not is_agent_name(name):
        raise UsageError(*_explain_bad_name(name))
    host: str | None = None
    provider: str | None = None
    if at:
        head, dot, tail = where.rpartition(".")
        if dot and tail in providers:
            host, provider = head or None, tail
        elif where.startswith("."):
            raise UsageError(f"there is no provider {where[1:]!r}", "known: " + ", ".join(providers))
        else:
            host = where or None
        if host is not None and not is_host_name(host):
            raise UsageError(f"{host!r} is not a host name", "write NAME@HOST, NAME@HOST.PROVIDER or NAME@.PROVIDER")
        if host is None and provider is None:
            raise UsageError(f"nothing follows the @ in {text!r}", "write NAME@HOST or NAME@.PROVIDER")
    if not name and not at:
        raise UsageError(f"{text!r} names no agent and no host", "write NAME, NAME@HOST or @HOST")
    return Address(name=name or None, host=host, provider=provider, path=path if colon else None)


def check_name(name: str) -> str:
    """`name` if a new agent may have it."""
    if is_agent_id(name):
        raise UsageError(f"{name!r} looks like an agent's id", "choose another name")
    if not is_agent_name(name):
        raise UsageError(*_explain_bad_name(name))
    return name


def _explain_bad_name(name: str) -> tuple[str, str]:
    import re

    fixed = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")[:63]
    hint = "names are lower-case letters, digits, - and _, at most 63, starting with a letter or digit"
    return f"{name!r} is not a valid name", hint + (f"; for example {fixed!r}" if fixed else "")


def parse_network(text: str) -> tuple[str, list[tuple[str, int | None]]]:
    """`on`, `off` or `allow=HOST[:PORT],…` as its first word and the places allowed; no port means every port."""
    mode, _, rest = text.partition("=")
    if text in ("on", "off"):
        return text, []
    if mode != "allow":
        raise UsageError(f"--network cannot be {text!r}", "on, off, or allow=HOST[:PORT],…")
    return mode, [_parse_destination(word.strip()) for word in rest.split(",")]


def _parse_destination(word: str) -> tuple[str, int | None]:
    """HOST, HOST:PORT, [ADDRESS] or [ADDRESS]:PORT."""
    import re

    found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:]+))(?::(\d{1,5}))?", word, re.ASCII)
    if not found or not (found[1] or is_host_name(found[2])) or not 0 < int(found[3] or 1) < 65536:
        hint = "for example: --network allow=api.example.com:443,example.org,[::1]:8080"
        raise UsageError(f"--network allow: {word!r} is not HOST or HOST:PORT", hint)
    return (found[1] or found[2]).lower(), int(found[3]) if found[3] else None


def generate_id() -> str:
    """An id that no other agent has."""
    return "a-" + os.urandom(6).hex()


def generate_name() -> str:
    """A name that is easy to say."""
    a, b = os.urandom(2)
    return f"{_ADJECTIVES[a % len(_ADJECTIVES)]}-{_NOUNS[b % len(_NOUNS)]}"
