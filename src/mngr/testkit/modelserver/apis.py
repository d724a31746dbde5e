"""The APIs that the model server speaks. Each is a module with the functions of `ModelApi`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

from mngr.testkit.modelserver import anthropic, chat_completions, gemini, openai_responses
from mngr.testkit.modelserver.answer import ModelAnswer
from mngr.testkit.modelserver.request import MeasuredParts, ModelRequest, ParsedBody, estimate_tokens

_API_BY_PATH = {"/messages": "anthropic", "/responses": "responses", "/chat/completions": "chat"}
_GEMINI_PATH = re.compile(r"(?:/v1(?:beta|alpha)?)?/models/([^:/]+):(\w+)")


class ModelApi(Protocol):
    """The functions of an API module. A body that a function returns is JSON."""

    def parse_request(self, body: dict[str, object]) -> ParsedBody: ...
    def select_measured_parts(self, body: dict[str, object]) -> MeasuredParts: ...
    def build_response(self, answer: ModelAnswer) -> object: ...
    def iter_events(self, answer: ModelAnswer) -> Iterator[bytes]: ...
    def build_error(self, status: int, kind: str | None, message: str) -> object: ...
    def build_stream_error(self, kind: str, message: str) -> bytes: ...


APIS: dict[str, ModelApi] = {
    "anthropic": anthropic,
    "responses": openai_responses,
    "chat": chat_completions,
    "gemini": gemini,
}


def find_api(path: str) -> str | None:
    """Return the name of the API that answers requests to a path, or None."""
    match = _GEMINI_PATH.fullmatch(path)
    if match:
        return "gemini" if match[2] in ("generateContent", "streamGenerateContent") else None
    return _API_BY_PATH.get(path)


def find_token_count_response_key(path: str) -> str | None:
    """Return the key under which a client expects a token count, or None when it does not ask for one."""
    if path == "/messages/count_tokens":
        return "input_tokens"
    match = _GEMINI_PATH.fullmatch(path)
    return "totalTokens" if match and match[2] == "countTokens" else None


def parse_model_request(api: str, session: str, path: str, body: dict[str, object], size: int) -> ModelRequest:
    """Return a request for an answer. Gemini clients name the model in the path, all others in the body."""
    match = _GEMINI_PATH.fullmatch(path)
    parts = APIS[api].select_measured_parts(body).to_dict()
    return ModelRequest(
        api=api,
        session=session,
        model=match[1] if match else str(body.get("model")),
        stream=match[2] == "streamGenerateContent" if match else body.get("stream") is True,
        body=body,
        parsed=APIS[api].parse_request(body),
        size=size,
        tokens={name: estimate_tokens(part) for name, part in parts.items()},
    )
