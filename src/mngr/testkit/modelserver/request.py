"""What a client sent, whichever API it speaks. Nothing about it is trusted: a strange body is an empty one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# Side requests of the programs: titles, topics, summaries, routing. They never use up a step.
_ASIDE = re.compile(r"title|topic|summar|classif|next speaker|complexity|commit message", re.I)
_ASIDE_TURN = re.compile(r"\s*(Generate|Write|Create) .{0,60}\btitle\b", re.I)


@dataclass(frozen=True)
class Turn:
    """One message of the conversation."""

    role: str  # user | assistant | tool | system | developer
    text: str = ""


@dataclass(frozen=True)
class Said:
    """What an API's module finds in a body."""

    turns: tuple[Turn, ...]
    tools: Mapping[str, dict[str, Any]]  # name: parameter schema
    system: str = ""
    schema: Any = None  # of the JSON that the client wants for an answer


@dataclass(frozen=True)
class Request:
    """A request for an answer."""

    api: str
    session: str
    model: str
    stream: bool
    body: dict[str, Any]
    said: Said
    size: int  # bytes
    tokens: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_aside(self) -> bool:
        """Whether the program asks for itself and not for its user."""
        if self.body.get("max_tokens") == 1:
            return True
        if self.said.tools:
            return False
        users = [turn.text for turn in self.said.turns if turn.role == "user"]
        return bool(_ASIDE.search(self.said.system) or (users and _ASIDE_TURN.match(users[-1])))

    @property
    def aside_text(self) -> str:
        """An answer that satisfies a side request."""
        return json.dumps(_sample(self.said.schema)) if self.said.schema else "ok"


def texts(content: Any) -> str:
    """The text of a message: itself, or that of its parts."""
    if isinstance(content, str):
        return content
    parts = [part if isinstance(part, str) else part.get("text") for part in listed(content, str)]
    return "\n".join(part for part in parts if isinstance(part, str))


def listed(value: Any, *also: type) -> list[Any]:
    """The objects of a list, and nothing that is no object."""
    return [item for item in value if isinstance(item, (dict, *also))] if isinstance(value, list) else []


def within(value: Any, *keys: str) -> Any:
    """What is found in nested objects, or None."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def schema_of(value: Any) -> dict[str, Any]:
    """A parameter schema, or an empty one."""
    return value if isinstance(value, dict) else {}


def tokens_of(value: Any) -> int:
    """About how many tokens something is: four bytes each."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return -(-len(text.encode("utf-8", "replace")) // 4) if value else 0


def _sample(schema: Any) -> Any:
    """A smallest value that fits a JSON schema."""
    if not isinstance(schema, dict):
        return "ok"
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return schema["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(key), list) and schema[key]:
            return _sample(schema[key][0])
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = str(kind[0] if isinstance(kind, list) and kind else kind).lower()
    if kind == "object":
        return {name: _sample(inner) for name, inner in schema_of(schema.get("properties")).items()}
    if kind in ("number", "integer"):
        return schema.get("minimum", 1)
    simple: dict[str, Any] = {"array": [], "boolean": False, "null": None}
    return simple.get(kind, "ok")
