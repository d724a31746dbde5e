"""All kinds of clients: the log names them, and none of them can break the server."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import socket
import struct
import threading
import zlib
from pathlib import Path
from typing import Any

import pytest

from mngr.base.errors import MngrError
from mngr.testkit.modelserver import ModelServer
from tests.conftest import wait_for
from tests.testkit.modelserver.client import APIS, ask, get, hear, post, request


@pytest.mark.parametrize("api", APIS)
def test_the_log_names_session_model_tools_and_sizes(api: str, tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    with ModelServer([{"text": "look", "sh": "ls"}], log=str(path)) as server:
        ask(server, "x" * 4000, api=api, turns=[("assistant", "yes?"), ("user", "the end")])
        (row,) = server.list_requests("foo")
        assert (row["session"], row["api"], row["model"], row["status"]) == ("foo", api, "m", 200)
        assert row["turns"] == (4 if api == "chat" else 3)
        assert row["last"] == {"role": "user", "text": "the end"}
        assert row["tools"] == ["Bash"]
        assert row["answer"] == {"text": "look", "calls": ["Bash"]}
        assert 4000 < row["bytes"] < 5000
        assert 1000 < row["tokens"]["messages"] < 1200
        assert 1 < row["tokens"]["system"] < 40 and 10 < row["tokens"]["tools"] < 60
        assert json.loads(path.read_text()) == row
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_log_in_memory_is_bounded_and_the_file_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mngr.testkit.modelserver.log._MAX_ROWS", 5)
    with ModelServer(log=str(tmp_path / "log")) as server:
        for _ in range(8):
            ask(server)
        assert [row["n"] for row in server.list_requests()] == [3, 4, 5, 6, 7]
        assert [row["n"] for row in server.list_requests(since=6)] == [6, 7]
    assert len((tmp_path / "log").read_text().splitlines()) == 8


def test_dumped_requests_contain_no_credentials(tmp_path: Path) -> None:
    _, body = request("anthropic", [("user", "hi")], {}, False)
    secret = {
        "Authorization": "Bearer s3cret",
        "X-Api-Key": "s3cret",
        "X-Goog-Api-Key": "s3cret",
        "X-Other": "shown",
    }
    with ModelServer(dump=str(tmp_path / "dump"), log=str(tmp_path / "log")) as server:
        post(server, "/s/..%2Ffoo/v1/messages", body, secret)
        assert [row["session"] for row in server.list_requests()] == ["../foo"]
    (file,) = (tmp_path / "dump").iterdir()
    dumped = json.loads(file.read_text())
    assert (dumped["body"], dumped["headers"]["X-Other"]) == (body, "shown")
    assert "s3cret" not in file.read_text() + (tmp_path / "log").read_text()
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_session_can_have_any_name() -> None:
    with ModelServer({"sessions": {"ü b?": [{"text": "mine"}]}}) as server:
        path = server.url("ü b?").removeprefix(server.url())
        _, body = request("anthropic", [("user", "hi")], {"Bash": {}}, False)
        assert hear("anthropic", post(server, path + "/v1/messages", body), stream=False).text == "mine"
        assert server.count_requests("ü b?") == [1]


def send_raw(server: ModelServer, data: bytes, *, reset: bool = False) -> bytes:
    """Send bytes, close the sending side and return the answer, or reset the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as client:
        client.sendall(data)
        if reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return b""
        client.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := client.recv(65536):
            answer += piece
        return answer


POST = b"POST /v1/messages HTTP/1.1\r\n"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"", b""), (b"\x16\x03\x01\x00", b""), (b"GET", b"400"), (b"GET / HTTP/9.9\r\n\r\n", b"505"), (b"BREW / HTTP/1.1\r\n\r\n", b"501"),
        (POST, b"400"), (POST + b"Content-Length: 100\r\n\r\n{", b""), (POST + b"Content-Length: -1\r\n\r\n", b"400"),
        (POST + b"Content-Length: many\r\n\r\n", b"400"), (POST + b"Content-Length: 4\r\n\r\nnope", b"400"),
        (POST + b"Content-Length: 2\r\n\r\n[]", b"400"), (POST + b"Content-Length: 3\r\n\r\n\xff\xfe\x00", b"400"),
        (POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", b"400"), (POST + b"Transfer-Encoding: chunked\r\n\r\nff\r\n{", b""),
        (POST + b"Transfer-Encoding: chunked\r\n\r\nfffffffff\r\n", b"413"), (POST + b"Content-Length: 99999999999\r\n\r\n", b"413"),
        (POST + b"Content-Encoding: zstd\r\nContent-Length: 1\r\n\r\nx", b"415"),
        (POST + b"Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", b"400"),
        (b"GET /nothing HTTP/1.1\r\nConnection: close\r\n\r\n", b"404"), (b"GET /_log?since=x HTTP/1.1\r\n\r\n", b"400"),
        (b"GET //[ HTTP/1.1\r\nConnection: close\r\n\r\n", b"404"), (b"GET /s/%ff%00/models HTTP/1.1\r\nConnection: close\r\n\r\n", b"200"),
    ],
)  # fmt: skip
def test_after_a_bad_client_the_next_one_is_served(data: bytes, status: bytes) -> None:
    with ModelServer([{"text": "still here"}]) as server:
        send_raw(server, data, reset=True)
        head = send_raw(server, data).split(b"\r\n")[0]
        assert status in head if status else not head.startswith(b"HTTP/1.1 200")
        assert hear("anthropic", ask(server), stream=False).text == "still here"


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    "junk",
    [None, 3, "x", [3], {"a": 1}, [[]], [{"role": 1, "type": 2, "parts": 3, "content": 4, "tools": 5}]],
)
def test_a_malformed_body_is_answered(api: str, junk: Any) -> None:
    path, body = request(api, [("user", "hi")], {"Bash": {}}, False)
    with ModelServer() as server:
        for key in [*body, "generationConfig", "response_format", "text", "max_tokens", "output_config"]:
            assert post(server, path, {**body, key: junk}).status == 200, key
        assert all("error" not in row for row in server.list_requests())


def test_a_body_above_64_mb_is_rejected_with_a_readable_reason() -> None:
    packed = gzip.compress(b"x" * (65 << 20), 1)
    with ModelServer() as server:
        assert post(server, "/v1/messages", packed, {"Content-Encoding": "gzip"}).status == 413
        for name, value, piece in (
            ("Content-Length", str(65 << 20), bytes(1 << 20)),
            ("Transfer-Encoding", "chunked", b"100000\r\n" + bytes(1 << 20) + b"\r\n"),
        ):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
            connection.putrequest("POST", "/v1/messages")
            connection.putheader(name, value)
            connection.endheaders()
            for _ in range(65):
                connection.send(piece)
            response = connection.getresponse()
            assert response.status == 413 and b"the limit of 64 MB" in response.read()
            connection.close()
        assert [row["status"] for row in server.list_requests()] == [413, 413, 413]


@pytest.mark.parametrize("depth", [100, 480, 100_000])
def test_a_deeply_nested_body_is_answered_or_rejected(depth: int, tmp_path: Path) -> None:
    schema = '{"properties": {"a": ' * depth + "{}" + "}}" * depth
    body = '{"messages": [], "output_config": {"format": {"schema": ' + schema + "}}}"
    with ModelServer(dump=str(tmp_path)) as server:
        assert post(server, "/v1/messages", body.encode()).status in ((200,) if depth == 100 else (200, 400))
        assert ask(server).status == 200
        assert all("error" not in row for row in server.list_requests())


@pytest.mark.parametrize("packing", ["gzip", "deflate"])
def test_compressed_and_chunked_bodies_are_read(packing: str) -> None:
    path, body = request("anthropic", [("user", '<fake>[{"text": "read"}]</fake>')], {}, False)
    data = json.dumps(body).encode()
    packed = gzip.compress(data) if packing == "gzip" else zlib.compress(data)
    with ModelServer() as server:
        assert hear("anthropic", post(server, path, packed, {"Content-Encoding": packing}), stream=False).text == "read"
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        connection.request(
            "POST",
            path,
            iter([data[:10], data[10:]]),
            encode_chunked=True,
            headers={"Transfer-Encoding": "chunked"},
        )
        assert json.load(connection.getresponse())["content"][0]["text"] == "read"
        connection.request("GET", "/_health")  # on the same connection
        assert json.load(connection.getresponse())["requests"] == 2
        connection.close()


def test_models_greetings_and_paths_without_a_version_are_answered() -> None:
    with ModelServer() as server:
        assert get(server, "/s/foo/v1/models").json()["data"][0]["id"]
        assert get(server, "/s/foo").status == get(server, "/s/foo/").status == 200
        head = send_raw(server, b"HEAD /s/foo HTTP/1.1\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200") and head.endswith(b"\r\n\r\n")
        _, body = request("chat", [("user", "hi")], {}, False)
        assert post(server, "/s/foo/chat/completions", body).status == 200
        assert post(server, "/s/foo/v1/nothing", body).status == 404


def test_a_port_in_use_is_reported_with_a_hint() -> None:
    with ModelServer() as server, pytest.raises(MngrError, match="cannot listen on") as error:
        ModelServer(port=server.port)
    assert error.value.exit_code == 1 and "--port 0" in str(error.value.hint)


def test_a_closed_server_leaves_no_threads_and_files() -> None:
    threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
    with ModelServer([{"hang": True}]) as server:
        clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
        assert ask(server, session="x", tools={}).status == 200
    for client in clients:
        client.close()
    wait_for(lambda: threading.active_count() == threads and len(os.listdir("/proc/self/fd")) == files)
