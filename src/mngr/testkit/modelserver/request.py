"""A client's request in any of the APIs. Malformed parts of a body count as empty."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from mngr.base.model import Struct
from mngr.base.untrusted_json import as_list, as_object, find_text, get_text

# Agent programs send side requests for titles, topics, summaries and routing. These never use up a step.
_SIDE_REQUEST = re.compile(r"title|topic|summar|classif|next speaker|complexity|commit message", re.I)
_SIDE_REQUEST_TURN = re.compile(r"\s*(Generate|Write|Create) .{0,60}\btitle\b", re.I)


@dataclass(frozen=True)
class ConversationTurn:
    """One message of the conversation."""

    role: str  # user | assistant | tool | system | developer
    text: str = ""


@dataclass(frozen=True)
class ToolParameters:
    """The parameters of a client's tool."""

    types: Mapping[str, str] = field(
        default_factory=dict
    )  # name: JSON type, or "" when the schema names no single type
    is_freeform: bool = False  # the tool takes plain text


FREEFORM = ToolParameters(is_freeform=True)
ClientTools = Mapping[str, ToolParameters]


@dataclass(frozen=True)
class ParsedBody:
    """The parts of a body that an API module extracts."""

    turns: tuple[ConversationTurn, ...]
    tools: ClientTools
    system: str = ""
    schema: object = None  # the JSON schema that the answer must match


class MeasuredParts(Struct):
    """The parts of a body whose size the log shows."""

    system: object
    tools: object
    messages: object


@dataclass(frozen=True)
class ModelRequest:
    """A request for an answer."""

    api: str
    session: str
    model: str
    stream: bool
    body: dict[str, object]
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
        if _SIDE_REQUEST.search(self.parsed.system):
            return True
        user_texts = [turn.text for turn in self.parsed.turns if turn.role == "user"]
        return bool(user_texts and _SIDE_REQUEST_TURN.match(user_texts[-1]))

    @property
    def side_answer(self) -> str:
        """An answer that satisfies a side request."""
        return json.dumps(_build_sample(self.parsed.schema)) if self.parsed.schema else "ok"


def join_texts(content: object) -> str:
    """Return the text of a message: the content itself, or the texts of its parts."""
    if isinstance(content, str):
        return content
    texts = [_find_part_text(part) for part in as_list(content)]
    return "\n".join(text for text in texts if text is not None)


def find_nested(value: object, *keys: str) -> object:
    """Return the value at a path of keys in nested objects, or None."""
    for key in keys:
        value = as_object(value).get(key)
    return value


def parse_parameters(schema: object) -> ToolParameters:
    """Return the parameters in the JSON schema of a tool."""
    properties = as_object(as_object(schema).get("properties"))
    return ToolParameters({name: get_text(as_object(value), "type") for name, value in properties.items()})


def estimate_tokens(value: object) -> int:
    """Return an estimate of the tokens in a value: four bytes per token."""
    if not value:
        return 0
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return -(-len(text.encode("utf-8", "replace")) // 4)


def _find_part_text(part: object) -> str | None:
    if isinstance(part, str):
        return part
    return find_text(as_object(part), "text")


def _build_sample(schema: object) -> object:
    """Return a minimal value that matches a JSON schema."""
    if not isinstance(schema, dict):
        return "ok"
    choices = as_list(schema.get("enum"))
    if choices:
        return choices[0]
    for key in ("anyOf", "oneOf", "allOf"):
        alternatives = as_list(schema.get(key))
        if alternatives:
            return _build_sample(alternatives[0])
    kind = _get_schema_type(schema)
    if kind == "object":
        properties = as_object(schema.get("properties"))
        return {name: _build_sample(property_schema) for name, property_schema in properties.items()}
    if kind in ("number", "integer"):
        return schema.get("minimum", 1)
    simple: dict[str, object] = {"array": [], "boolean": False, "null": None}
    return simple.get(kind, "ok")


def _get_schema_type(schema: Mapping[str, object]) -> str:
    """Return the type that a JSON schema names, or the first of several, in lower case."""
    default = "object" if "properties" in schema else "string"
    kind = schema.get("type", default)
    types = as_list(kind)
    return str(types[0] if types else kind).lower()
