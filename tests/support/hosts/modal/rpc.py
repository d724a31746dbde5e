"""gRPC for whatever a class has methods for: every call of the protocol can be made, and what is not modelled says so."""

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

CLIENT: contextvars.ContextVar[str] = contextvars.ContextVar("CLIENT", default="")  # the version that calls


def fail(status: Status, message: str, *details: Any) -> NoReturn:
    """Answer with an error."""
    raise GRPCError(status, message, list(details) or None)


def filled(kind: Any, **fields: Any) -> Any:
    """A message with those of the fields that this version of the protocol has."""
    return kind(**{name: value for name, value in fields.items() if name in kind.DESCRIPTOR.fields_by_name})


def service(module: Any, name: str, served: Any) -> Any:
    """All calls of a service, answered by the methods of `served`, each after its `check`."""
    described = module.DESCRIPTOR.services_by_name[name]
    mapping = {}
    for method in described.methods:
        asked, answered = (message_factory.GetMessageClass(kind) for kind in (method.input_type, method.output_type))
        shape = Cardinality((method.client_streaming, method.server_streaming))
        path = f"/{described.full_name}/{method.name}"
        mapping[path] = Handler(_handler(method.name, shape, served), shape, asked, answered)
    return type("Service", (), {"__mapping__": lambda self: mapping})()


def _handler(name: str, shape: Any, served: Any) -> Callable[[Any], Any]:
    async def handle(stream: Any) -> None:
        answer = getattr(served, name, None)
        if answer is None:
            fail(Status.UNIMPLEMENTED, f"{name} is not modelled here")
        CLIENT.set(stream.metadata.get("x-modal-client-version") or "")
        asked = await stream.recv_message()
        served.check(name, asked, stream.metadata)
        if shape.client_streaming:
            await stream.send_message(await answer(asked, stream))
        elif shape.server_streaming:
            async for message in answer(asked):
                await stream.send_message(message)
        else:
            await stream.send_message(await answer(asked))

    return handle


def token(key: bytes, **claims: Any) -> str:
    """A signed token (JWT)."""
    body = _encode(b'{"alg":"HS256"}') + "." + _encode(json.dumps(claims).encode())
    return f"{body}.{_sign(key, body)}"


def claims(key: bytes, text: str) -> dict[str, Any] | None:
    """What a token of ours says; None when it is not ours, or no longer good."""
    body, _, signature = text.rpartition(".")
    if not hmac.compare_digest(signature, _sign(key, body)):
        return None
    part = body.split(".")[1]
    said: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return said if said["exp"] > time.time() else None


def _sign(key: bytes, body: str) -> str:
    return _encode(hmac.new(key, body.encode(), "sha256").digest())


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
