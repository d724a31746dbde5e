"""Scripted faults, as a client sees them."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from mngr.testkit.modelserver import ModelServer
from tests.conftest import wait_for
from tests.testkit.modelserver.client import APIS, Answer, ask, hear, request

ALL = pytest.mark.parametrize("api", APIS)
BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@BOTH
@ALL
def test_a_step_fails_as_often_as_scripted_and_counts_each_request(api: str, stream: bool) -> None:
    with ModelServer([{"fail": {"status": 429, "times": 3}, "text": "at last"}, {"text": "next"}]) as server:
        answers = [ask(server, api=api, stream=stream) for _ in range(5)]
        assert [answer.status for answer in answers] == [429, 429, 429, 200, 200]
        assert hear(api, answers[3], stream=stream).text == "at last"
        assert hear(api, answers[4], stream=stream).text == "next"
        assert server.count_requests("foo") == [4, 1]
        rows = server.list_requests("foo")
        assert [(row["step"], row["asked"], row["fault"]) for row in rows] == [
            (1, 1, "fail"), (1, 2, "fail"), (1, 3, "fail"), (1, 4, None), (2, 1, None),
        ]  # fmt: skip


KINDS = {
    "anthropic": lambda body: body["error"]["type"], "gemini": lambda body: body["error"]["status"],
    "chat": lambda body: body["error"]["code"], "responses": lambda body: body["error"]["code"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("api", "status", "kind"),
    [
        ("anthropic", 400, "invalid_request_error"), ("anthropic", 401, "authentication_error"),
        ("anthropic", 429, "rate_limit_error"), ("anthropic", 500, "api_error"),
        ("anthropic", 529, "overloaded_error"), ("responses", 429, "rate_limit_exceeded"),
        ("chat", 401, "invalid_api_key"), ("chat", 500, None), ("gemini", 429, "RESOURCE_EXHAUSTED"),
        ("gemini", 503, "UNAVAILABLE"),
    ],
)  # fmt: skip
def test_an_error_has_the_format_of_the_api(api: str, status: int, kind: str | None) -> None:
    with ModelServer([{"fail": {"status": status, "times": -1}}]) as server:
        for _ in range(2):
            answer = ask(server, api=api)
            assert (answer.status, KINDS[api](answer.json())) == (status, kind)
            assert answer.json()["error"]["message"]


@ALL
def test_a_script_can_set_the_headers_and_body_of_an_error(api: str) -> None:
    reset = {"anthropic-ratelimit-unified-reset": 1794774686, "retry-after": "7"}
    body = {"error": {"type": "usage_limit_reached", "resets_at": 1794774686}}
    steps: list[dict[str, Any]] = [
        {"fail": {"status": 429, "headers": reset, "body": body}},
        {"fail": {"status": 503, "type": "strange", "message": "so it is"}},
    ]
    with ModelServer(steps) as server:
        answer = ask(server, api=api)
        assert (answer.status, answer.json()) == (429, body)
        assert (answer.headers["retry-after"], answer.headers["anthropic-ratelimit-unified-reset"]) == (
            "7",
            "1794774686",
        )
        assert ask(server, api=api).status == 200
        other = ask(server, api=api)
        assert "retry-after" not in other.headers
        assert other.json()["error"]["message"] == "so it is" and "strange" in other.json()["error"].values()


@pytest.mark.parametrize("script", ["queue", "prompt"])
@BOTH
@ALL
def test_a_cut_answer_is_followed_by_a_whole_one(api: str, stream: bool, script: str) -> None:
    steps = [{"text": "a long text " * 20, "cut": 3, "cut_times": 2}]
    prompt = f"<fake>{json.dumps(steps)}</fake>" if script == "prompt" else "hi"
    with ModelServer(steps if script == "queue" else []) as server:
        for _ in range(2):
            answer = ask(server, prompt, api=api, stream=stream)
            assert answer.status == 200 and answer.data.endswith(b"<cut>")
            assert len(answer.data) > 100
            if stream:
                assert len(answer.events()) == 3
        assert hear(api, ask(server, prompt, api=api, stream=stream), stream=stream).text == "a long text " * 20
        assert [row["fault"] for row in server.list_requests()] == ["cut", "cut", None]
        assert all(row["seconds"] is not None for row in server.list_requests())


def _get_stream_error(api: str, answer: Answer) -> Any:
    last = answer.events()[-1]
    return last["response"]["error"]["code"] if api == "responses" else last["error"]


@ALL
def test_an_error_can_occur_inside_the_stream(api: str) -> None:
    with ModelServer([{"text": "long enough for three pieces " * 3, "sse_error": "overloaded_error"}]) as server:
        answer = ask(server, api=api, stream=True)
        assert answer.status == 200 and len(answer.events()) == 3
        assert "overloaded_error" in json.dumps(_get_stream_error(api, answer))
        assert hear(api, ask(server, api=api, stream=True), stream=True).text.startswith("long enough")
        server.set_script("foo", [{"sse_error": "overloaded_error"}])
        assert ask(server, api=api).status == 529


def test_several_faults_of_a_step_occur_in_order() -> None:
    step = {
        "fail": {"status": 500},
        "hang": True,
        "hang_times": 1,
        "cut": 0,
        "sse_error": "api_error",
        "text": "done",
    }
    with ModelServer([step]) as server:
        assert ask(server, stream=True).status == 500
        with pytest.raises(TimeoutError):
            _request_and_wait(server, timeout=0.2)
        assert ask(server, stream=True).data == b"<cut>"
        assert ask(server, stream=True).events()[-1]["type"] == "error"
        assert hear("anthropic", ask(server, stream=True), stream=True).text == "done"
        assert [row["fault"] for row in server.list_requests()] == ["fail", "hang", "cut", "sse_error", None]


def _request_and_wait(server: ModelServer, *, stream: bool = True, timeout: float = 10) -> bytes:
    path, body = request("anthropic", [("user", "hi")], {"Bash": {}}, stream)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=timeout)
    try:
        connection.request("POST", "/s/foo" + path, json.dumps(body))
        return connection.getresponse().read()
    finally:
        connection.close()


@BOTH
def test_a_hanging_step_stays_silent_until_the_client_disconnects(stream: bool) -> None:
    with ModelServer([{"hang": True}]) as server:
        for number in range(2):
            with pytest.raises(TimeoutError):
                _request_and_wait(server, stream=stream, timeout=0.2)
            wait_for(lambda: [row for row in server.list_requests()[number:] if row["seconds"] is not None])  # noqa: B023
            assert server.list_requests()[number]["fault"] == "hang"
        assert server.count_requests("foo") == [2]


def test_an_unanswered_request_is_logged_and_ends_with_the_server(tmp_path: Path) -> None:
    ended: list[str] = []

    def client() -> None:
        try:
            _request_and_wait(server)
        except (OSError, http.client.HTTPException) as error:
            ended.append(type(error).__name__)

    with ModelServer([{"hang": True}], log=str(tmp_path / "log")) as server:
        thread = threading.Thread(target=client)
        thread.start()
        (row,) = wait_for(server.list_requests)
        assert (row["status"], row["seconds"], row["last"]) == (None, None, {"role": "user", "text": "hi"})
    thread.join(5)
    assert ended == ["IncompleteRead"]
    assert json.loads((tmp_path / "log").read_text())["fault"] == "hang"


def test_delays_slow_down_the_start_and_the_stream() -> None:
    with ModelServer([{"text": "x" * 24 * 5, "delay": 0.2, "chunk_delay": 0.05}]) as server:
        path, body = request("anthropic", [("user", "hi")], {"Bash": {}}, True)
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        start = time.monotonic()
        connection.request("POST", path, json.dumps(body))
        response = connection.getresponse()
        first_seconds = time.monotonic() - start
        response.read(10)
        response.read()
        total_seconds = time.monotonic() - start
        connection.close()
        assert first_seconds >= 0.2 and total_seconds >= 0.2 + 0.05 * 9  # eleven events
        (row,) = server.list_requests()
        assert row["seconds"] >= 0.6


def test_a_disconnected_client_is_logged_and_uses_up_its_step() -> None:
    steps = [{"text": "x" * 24 * 1000, "chunk_delay": 0.005}, {"text": "next"}]
    with ModelServer(steps) as server:
        path, body = request("anthropic", [("user", "hi")], {"Bash": {}}, True)
        data = json.dumps(body).encode()
        client = socket.create_connection(("127.0.0.1", server.port))
        client.sendall(f"POST /s/foo{path} HTTP/1.1\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
        assert client.recv(100)
        client.close()
        assert wait_for(lambda: server.list_requests()[0].get("gone"))
        assert hear("anthropic", ask(server), stream=False).text == "next"
