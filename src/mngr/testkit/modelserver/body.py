"""Reads the body of an HTTP request within limits."""

from __future__ import annotations

import json
import zlib
from email.message import Message
from io import BufferedIOBase

MAX_BODY_BYTES = 64 << 20  # bytes


class RequestRejected(Exception):
    """A request that the script does not answer, with the HTTP status of the error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def read_body(stream: BufferedIOBase, headers: Message) -> bytes:
    """Return the whole body, decompressed. Raise RequestRejected when it is too large or unreadable."""
    if "chunked" in (headers.get("Transfer-Encoding") or "").lower():
        data = _read_chunks(stream)
    else:
        data = _read_exactly(stream, _parse_number(headers.get("Content-Length") or "0", 10))
    encoding = (headers.get("Content-Encoding") or "identity").lower()
    if encoding == "identity":
        return data
    if encoding not in ("gzip", "deflate"):
        raise RequestRejected(
            415, f"the server cannot read a body with the encoding {encoding}: switch compression off in the client"
        )
    return _decompress(data)


def parse_body(data: bytes) -> dict[str, object]:
    """Return the JSON object in a body."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RequestRejected(400, f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise RequestRejected(400, "the body is not a JSON object")
    return body


def _read_chunks(stream: BufferedIOBase) -> bytes:
    body = bytearray()
    while size := _parse_number(stream.readline(1024).split(b";")[0].decode("latin-1"), 16):
        if len(body) + size > MAX_BODY_BYTES:
            raise _too_large_error()
        body += _read_exactly(stream, size)
        stream.readline(1024)
    while stream.readline(65536).strip():
        pass  # skip the trailers
    return bytes(body)


def _read_exactly(stream: BufferedIOBase, size: int) -> bytes:
    if size > MAX_BODY_BYTES:
        raise _too_large_error()
    data = stream.read(size)
    if len(data) < size:
        raise ConnectionError("the client closed the connection before its request was complete")
    return data


def _parse_number(text: str, base: int) -> int:
    try:
        value = int(text.strip(), base)
    except ValueError:
        value = -1
    if value < 0:
        raise RequestRejected(400, "the length of the body is not a number")
    return value


def _decompress(data: bytes) -> bytes:
    try:
        decompressor = zlib.decompressobj(wbits=47)  # gzip or zlib, detected from the header
        body = decompressor.decompress(data, MAX_BODY_BYTES + 1)
    except zlib.error as error:
        raise RequestRejected(400, f"cannot decompress the body: {error}") from None
    if len(body) > MAX_BODY_BYTES:
        raise _too_large_error()
    return body


def _too_large_error() -> RequestRejected:
    return RequestRejected(413, f"the body is larger than the limit of {MAX_BODY_BYTES >> 20} MB")
