"""gRPC services from classes: every call of the protocol is accepted, and an unmodelled call is an error with its name."""

from __future__ import annotations

import base64
import contextvars
import hmac
import json
import time
from collections.abc import Callable
from typing import Any, NoReturn

from google.protobuf import message_factory  # type: ignore[import-untyped, unused-ignore]
from grpclib import GRPCError, Status  # type: ignore[import-not-found, unused-ignore]
from grpclib.const import Cardinality, Handler  # type: ignore[import-not-found, unused-ignore]

CLIENT: contextvars.ContextVar[str] = contextvars.ContextVar("CLIENT", default="")  # the version of the calling library


def fail(status: Status, message: str, *details: Any) -> NoReturn:
    """Answer with an error."""
    raise GRPCError(status, message, list(details) or None)


def filled(kind: Any, **fields: Any) -> Any:
    """Return a message with those fields that this version of the protocol has."""
    return kind(**{name: value for name, value in fields.items() if name in kind.DESCRIPTOR.fields_by_name})


def service(module: Any, name: str, served: Any) -> Any:
    """Return a service whose calls are answered by the methods of `served`, each after its `check`."""
    descriptor = module.DESCRIPTOR.services_by_name[name]
    mapping = {}
    for method in descriptor.methods:
        request_type, response_type = (
            message_factory.GetMessageClass(kind) for kind in (method.input_type, method.output_type)
        )
        cardinality = Cardinality((method.client_streaming, method.server_streaming))
        path = f"/{descriptor.full_name}/{method.name}"
        mapping[path] = Handler(_handler(method.name, cardinality, served), cardinality, request_type, response_type)
    return type("Service", (), {"__mapping__": lambda self: mapping})()


def _handler(name: str, cardinality: Any, served: Any) -> Callable[[Any], Any]:
    async def handle(stream: Any) -> None:
        answer = getattr(served, name, None)
        if answer is None:
            fail(Status.UNIMPLEMENTED, f"{name} is not modelled here")
        CLIENT.set(stream.metadata.get("x-modal-client-version") or "")
        request = await stream.recv_message()
        served.check(name, request, stream.metadata)
        if cardinality.client_streaming:
            await stream.send_message(await answer(request, stream))
        elif cardinality.server_streaming:
            async for message in answer(request):
                await stream.send_message(message)
        else:
            await stream.send_message(await answer(request))

    return handle


def token(key: bytes, **claims: Any) -> str:
    """Return a signed token (JWT)."""
    body = _encode(b'{"alg":"HS256"}') + "." + _encode(json.dumps(claims).encode())
    return f"{body}.{_sign(key, body)}"


def claims(key: bytes, text: str) -> dict[str, Any] | None:
    """Return the claims of a token, or None when it is expired or signed with another key."""
    body, _, signature = text.rpartition(".")
    if not hmac.compare_digest(signature, _sign(key, body)):
        return None
    part = body.split(".")[1]
    payload: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return payload if payload["exp"] > time.time() else None


def _sign(key: bytes, body: str) -> str:
    return _encode(hmac.new(key, body.encode(), "sha256").digest())


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
