"""Handles HTTP requests: parses them, answers from the script, and survives every client."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, unquote

from mngr.base.errors import UsageError
from mngr.base.untrusted_json import get_object
from mngr.testkit.modelserver import anthropic
from mngr.testkit.modelserver.answer import ModelAnswer, Usage, new_id
from mngr.testkit.modelserver.apis import APIS, find_api, find_token_count_response_key, parse_model_request
from mngr.testkit.modelserver.body import MAX_BODY_BYTES, RequestRejected, parse_body, read_body
from mngr.testkit.modelserver.listener import ThreadedListener
from mngr.testkit.modelserver.log import LoggedAnswer, LoggedConversation, LoggedTurn, LogRow
from mngr.testkit.modelserver.playback import ScheduledStep
from mngr.testkit.modelserver.request import ModelRequest, estimate_tokens
from mngr.testkit.modelserver.tools import resolve_calls

_ERROR_MESSAGES = {
    401: "invalid x-api-key",
    429: "This request would exceed your account's rate limit. Please try again later.",
    500: "Internal server error",
    529: "Overloaded",
}
_MAX_LOGGED_CHARACTERS = 500  # characters of a text in a log row
_MODEL_ENTRY = {
    "id": "scripted-model",
    "object": "model",
    "created": 0,
    "owned_by": "mngr",
    "type": "model",
    "display_name": "Scripted",
}


class ConnectionCut(ConnectionError):
    """The script cut the connection, or the server ends."""


class ModelRequestHandler(BaseHTTPRequestHandler):
    """Handles one connection of a client."""

    server: ThreadedListener
    protocol_version = "HTTP/1.1"
    server_version = "mngr-model-server"
    disable_nagle_algorithm = True
    timeout = 3600
    _row: LogRow | None = None
    _unread = False

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing to stderr."""

    def do_HEAD(self) -> None:
        self._serve(self._handle_get)

    def do_GET(self) -> None:
        self._serve(self._handle_get)

    def do_POST(self) -> None:
        self._serve(self._handle_post)

    # Common to every request.

    def _serve(self, handle: Callable[[str, str, dict[str, list[str]]], None]) -> None:
        path, _, query = self.path.partition("?")
        session = "default"
        match = re.match(r"/s/([^/]+)(/.*)?$", path)
        if match:
            session, path = unquote(match[1]), match[2] or "/"
        path = re.sub(r"^/v1(?=/)", "", path)
        self._row = None
        try:
            try:
                handle(session, path, parse_qs(query))
            except RequestRejected as rejection:
                self._send_rejection(session, path, rejection)
        except OSError as error:
            self.close_connection = True
            self._close_row(gone=None if isinstance(error, ConnectionCut) else str(error))
        except Exception as error:  # A client must not be able to end the server.
            self.close_connection = True
            self._close_row(status=500, error=repr(error))

    def _close_row(self, status: int | None = None, *, gone: str | None = None, error: str | None = None) -> None:
        if self._row is not None:
            self.server.log.close_row(self._row, status, gone=gone, error=error)
            self._row = None

    def _open_row(
        self,
        session: str,
        api: str,
        *,
        path: str | None = None,
        size: int | None = None,
        conversation: LoggedConversation | None = None,
    ) -> LogRow:
        client = self.headers.get("User-Agent")
        row = self.server.log.add_row(session, api, client, path=path, size=size, conversation=conversation)
        self._row = row
        return row

    def _send_rejection(self, session: str, path: str, rejection: RequestRejected) -> None:
        api = find_api(path)
        if self._row is None:
            self._open_row(session, api or "unknown", path=path[:_MAX_LOGGED_CHARACTERS])
        api_module = APIS.get(api or "", anthropic)
        self._send(rejection.status, api_module.build_error(rejection.status, None, rejection.message))
        if self._unread:
            self._hang_up()

    def _hang_up(self) -> None:
        """Close the connection in a way that lets a client that is still sending read the answer."""
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_WR)
        self.connection.settimeout(2)
        remaining = 4 * MAX_BODY_BYTES
        while remaining > 0 and (data := self.connection.recv(1 << 16)):
            remaining -= len(data)

    def _send(self, status: int, body: object, headers: dict[str, str] | None = None) -> None:
        text = body if isinstance(body, str) else json.dumps(body)
        data = text.encode("utf-8", "replace")
        self._close_row(status=status)
        self._send_head(status, "application/json", {"Content-Length": str(len(data)), **(headers or {})})
        if self.command != "HEAD":
            self.wfile.write(data)

    def _send_head(self, status: int, content_type: str, headers: dict[str, str]) -> None:
        self.send_response(status)
        set_headers = {name.lower() for name in headers}
        for name, value in (("Content-Type", content_type), ("request-id", new_id("req_"))):
            if name.lower() not in set_headers:
                self.send_header(name, value)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    # GET

    def _handle_get(self, session: str, path: str, query: dict[str, list[str]]) -> None:
        log, playback = self.server.log, self.server.playback
        wanted_session = query.get("session", [None])[0]
        if path == "/_health":
            self._send(200, {"ok": True, "requests": len(log), "trouble": log.trouble})
        elif path == "/_log":
            since = query.get("since", ["0"])[0]
            if not since.isdecimal():
                raise RequestRejected(400, "since must be a number")
            self._send(200, {"requests": log.list_rows(wanted_session, int(since))})
        elif path == "/_asked":
            self._send(200, {"asked": playback.count_requests(wanted_session or session)})
        elif path.rstrip("/") in ("/models", "/v1beta/models"):
            self._open_row(session, "models")
            self._send(200, {"object": "list", "data": [_MODEL_ENTRY], "has_more": False, "models": []})
        elif path in ("/", "/api/hello"):
            self._open_row(session, "hello")
            self._send(200, {"message": "hello"})
        else:
            raise RequestRejected(404, f"the server has no path {path}")

    # POST

    def _handle_post(self, session: str, path: str, query: dict[str, list[str]]) -> None:
        self._unread = True
        raw = read_body(self.rfile, self.headers)
        self._unread = False
        if path in ("/_script", "/_named", "/_reset"):
            self._handle_control(path, parse_body(raw or b"{}"))
            return
        count_key = find_token_count_response_key(path)
        if count_key:
            self._open_row(session, "count_tokens", size=len(raw))
            self._send(200, {count_key: max(1, len(raw) // 4)})
            return
        api = find_api(path)
        if api is None:
            raise RequestRejected(404, f"the server has no path {path}")
        self._send_answer(parse_model_request(api, session, path, parse_body(raw), len(raw)))

    def _handle_control(self, path: str, body: dict[str, object]) -> None:
        key = "name" if path == "/_named" else "session"
        name = body.get(key, None if path == "/_reset" else "default")
        if not isinstance(name, str | None):
            raise RequestRejected(400, f"{key} must be a string")
        try:
            self._control_playback(path, name, body)
        except UsageError as error:
            raise RequestRejected(400, error.message) from None
        self._send(200, {"ok": True})

    def _control_playback(self, path: str, name: str | None, body: dict[str, object]) -> None:
        playback = self.server.playback
        if path == "/_script":
            playback.set_script(str(name), body.get("steps", []), body.get("match", "tools"))
        elif path == "/_named":
            playback.set_named_script(str(name), body.get("steps", []))
        else:
            playback.reset(name)
            if name is None:
                self.server.log.clear()

    def _send_answer(self, request: ModelRequest) -> None:
        log, conversation = self.server.log, _describe_conversation(request)
        row = self._open_row(request.session, request.api, conversation=conversation)
        log.dump_request(row, self.path, dict(self.headers), request.body)
        try:
            scheduled = self.server.playback.choose_step(request)
        except UsageError as error:
            raise RequestRejected(400, f"the script in the prompt is not valid: {error.message}") from None
        conversation = conversation.replace(
            source=scheduled.source, step=scheduled.number, asked=scheduled.request_count, fault=scheduled.fault
        )
        log.update_conversation(row, conversation)
        if scheduled.step.delay and self.server.ended.wait(scheduled.step.delay):
            raise ConnectionCut("the server is shutting down")
        if scheduled.fault == "fail":
            self._send_failure(request, scheduled)
            return
        answer = _build_answer(scheduled, request)
        if scheduled.fault is None:
            log.update_conversation(row, conversation.replace(answer=_describe_answer(answer)))
        if request.stream:
            self._send_stream(request, scheduled, answer)
        else:
            self._send_response(request, scheduled, answer)

    def _send_failure(self, request: ModelRequest, scheduled: ScheduledStep) -> None:
        fail = scheduled.step.fail
        assert fail is not None
        message = fail.message or _ERROR_MESSAGES.get(fail.status, f"scripted error {fail.status}")
        error = APIS[request.api].build_error(fail.status, fail.type, message)
        self._send(fail.status, error if fail.body is None else fail.body, dict(fail.headers))

    def _send_response(self, request: ModelRequest, scheduled: ScheduledStep, answer: ModelAnswer) -> None:
        api = APIS[request.api]
        if scheduled.fault == "hang":
            self._wait_for_disconnect()
        elif scheduled.fault == "sse_error":
            status = 529 if "overload" in str(scheduled.step.sse_error) else 500
            self._send(status, api.build_error(status, scheduled.step.sse_error, _ERROR_MESSAGES[status]))
        elif scheduled.fault == "cut":
            data = json.dumps(api.build_response(answer)).encode()
            self._send_head(200, "application/json", {"Content-Length": str(len(data))})
            self.wfile.write(data[: len(data) // 2])
            self._cut_connection()
        else:
            self._send(200, api.build_response(answer))

    def _send_stream(self, request: ModelRequest, scheduled: ScheduledStep, answer: ModelAnswer) -> None:
        content_type = "text/event-stream; charset=utf-8"
        self._send_head(200, content_type, {"Cache-Control": "no-cache", "Transfer-Encoding": "chunked"})
        api = APIS[request.api]
        if scheduled.fault == "hang":
            self._send_chunk(b": nothing follows\n\n")
            self._wait_for_disconnect()
        elif scheduled.fault == "cut":
            self._send_chunks(api.iter_events(answer), scheduled, scheduled.step.cut)
            self._cut_connection()
        elif scheduled.fault == "sse_error":
            self._send_chunks(api.iter_events(answer), scheduled, 2)
            self._send_chunk(api.build_stream_error(str(scheduled.step.sse_error), "Overloaded"))
            self._end_chunks()
        else:
            self._send_chunks(api.iter_events(answer), scheduled, None)
            self._end_chunks()

    def _send_chunks(self, events: Iterable[bytes], scheduled: ScheduledStep, max_events: int | None) -> None:
        for number, data in enumerate(events):
            if number == max_events:
                return
            if number and scheduled.step.chunk_delay and self.server.ended.wait(scheduled.step.chunk_delay):
                raise ConnectionCut("the server is shutting down")
            self._send_chunk(data)

    def _send_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _end_chunks(self) -> None:
        self._close_row(status=200)
        self.wfile.write(b"0\r\n\r\n")

    def _cut_connection(self) -> None:
        self._close_row(status=200)
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _wait_for_disconnect(self) -> None:
        self.connection.settimeout(None)
        while self.connection.recv(1 << 16):
            pass
        raise ConnectionCut("the client closed the connection")


def _describe_conversation(request: ModelRequest) -> LoggedConversation:
    parsed = request.parsed
    last = None
    if parsed.turns:
        last_turn = parsed.turns[-1]
        last = LoggedTurn(role=last_turn.role, text=last_turn.text[-_MAX_LOGGED_CHARACTERS:])
    return LoggedConversation(
        model=request.model,
        stream=request.stream,
        turns=len(parsed.turns),
        last=last,
        tools=tuple(sorted(parsed.tools)),
        bytes=request.size,
        tokens=dict(request.tokens),
    )


def _describe_answer(answer: ModelAnswer) -> LoggedAnswer:
    text = (answer.text or "")[:_MAX_LOGGED_CHARACTERS]
    return LoggedAnswer(text=text, calls=tuple(call.name for call in answer.calls))


def _build_answer(scheduled: ScheduledStep, request: ModelRequest) -> ModelAnswer:
    step = scheduled.step
    calls = resolve_calls(step.calls, request.parsed.tools)
    text = "ok" if step.text is None and not calls else step.text
    output = [text, step.thinking, [(call.name, call.input) for call in calls]]
    estimated = {"input": max(1, sum(request.tokens.values())), "output": max(1, estimate_tokens(output))}
    return ModelAnswer(
        model=request.model,
        usage=Usage(**{**estimated, **step.usage}),
        text=text,
        thinking=step.thinking,
        calls=calls,
        stop_reason=step.stop,
        is_usage_requested=get_object(request.body, "stream_options").get("include_usage") is True,
    )
