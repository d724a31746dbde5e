"""A client's request in any of the APIs. Malformed parts of a body count as empty."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# Agent programs send side requests for titles, topics, summaries and routing. These never use up a step.
_SIDE_REQUEST = re.compile(r"title|topic|summar|classif|next speaker|complexity|commit message", re.I)
_SIDE_REQUEST_TURN = re.compile(r"\s*(Generate|Write|Create) .{0,60}\btitle\b", re.I)


@dataclass(frozen=True)
class ConversationTurn:
    """One message of the conversation."""

    role: str  # user | assistant | tool | system | developer
    text: str = ""


@dataclass(frozen=True)
class ParsedBody:
    """The parts of a body that an API module extracts."""

    turns: tuple[ConversationTurn, ...]
    tools: Mapping[str, dict[str, Any]]  # name: parameter schema
    system: str = ""
    schema: Any = None  # the JSON schema that the answer must match


@dataclass(frozen=True)
class ModelRequest:
    """A request for an answer."""

    api: str
    session: str
    model: str
    stream: bool
    body: dict[str, Any]
    parsed: ParsedBody
    size: int  # bytes
    tokens: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_side_request(self) -> bool:
        """True when the agent program asks for itself, not for its user."""
        if self.body.get("max_tokens") == 1:
            return True
        if self.parsed.tools:
            return False
        user_texts = [turn.text for turn in self.parsed.turns if turn.role == "user"]
        return bool(
            _SIDE_REQUEST.search(self.parsed.system) or (user_texts and _SIDE_REQUEST_TURN.match(user_texts[-1]))
        )

    @property
    def side_answer(self) -> str:
        """An answer that satisfies a side request."""
        return json.dumps(_build_sample(self.parsed.schema)) if self.parsed.schema else "ok"


def join_texts(content: Any) -> str:
    """Return the text of a message: the content itself, or the texts of its parts."""
    if isinstance(content, str):
        return content
    parts = [part if isinstance(part, str) else part.get("text") for part in list_objects(content, str)]
    return "\n".join(part for part in parts if isinstance(part, str))


def list_objects(value: Any, *other_types: type) -> list[Any]:
    """Return the objects in a list, and values of `other_types`. Everything else is dropped."""
    return [item for item in value if isinstance(item, (dict, *other_types))] if isinstance(value, list) else []


def find_nested(value: Any, *keys: str) -> Any:
    """Return the value at a path of keys in nested objects, or None."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def get_schema(value: Any) -> dict[str, Any]:
    """Return a parameter schema, or an empty one when the value is not an object."""
    return value if isinstance(value, dict) else {}


def estimate_tokens(value: Any) -> int:
    """Return an estimate of the tokens in a value: four bytes per token."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return -(-len(text.encode("utf-8", "replace")) // 4) if value else 0


def _build_sample(schema: Any) -> Any:
    """Return a minimal value that matches a JSON schema."""
    if not isinstance(schema, dict):
        return "ok"
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return schema["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(key), list) and schema[key]:
            return _build_sample(schema[key][0])
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = str(kind[0] if isinstance(kind, list) and kind else kind).lower()
    if kind == "object":
        return {
            name: _build_sample(property_schema)
            for name, property_schema in get_schema(schema.get("properties")).items()
        }
    if kind in ("number", "integer"):
        return schema.get("minimum", 1)
    simple: dict[str, Any] = {"array": [], "boolean": False, "null": None}
    return simple.get(kind, "ok")
