"""Tests that only the person's own browser can see and control agents."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator

import pytest

from mngr.web.live.security import is_allowed_host
from tests.conftest import MngrProgram
from tests.support.live_page import LiveServer

INLINE = re.compile(r"<script(?![^>]*\bsrc=)[^>]*>|<style|\bstyle=|\son[a-z]+=", re.I)


@pytest.fixture
def server(mngr: MngrProgram) -> Iterator[LiveServer]:
    with LiveServer(mngr) as server:
        yield server


def test_the_token_becomes_a_strict_cookie_and_leaves_the_url(server: LiveServer) -> None:
    code, headers, _ = server.ask(f"/agents/x?tab=diff&token={server.token}")
    assert code == 303 and headers["location"] == f"/agents/x?tab=diff#token={server.token}"
    cookie = headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and server.token not in cookie
    assert server.get("/")[0] == 200


def test_nothing_is_shown_without_the_cookie(server: LiveServer) -> None:
    name = server.cookie.partition("=")[0]
    for cookie in ("", f"{name}=", f"{name}={server.token}", f"{name}={'0' * 64}", "\x7f=;;;"):
        for path in ("/", "/events", "/agents/x", "/runs", "/tests/", "/static/live.css", "/nothing"):
            assert server.ask(path, {"Cookie": cookie})[0] == 401, (cookie, path)
    assert server.ask("/?token=wrong", {"Cookie": server.cookie})[0] == 403


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.nip.io:1", "", "a b", "[::1", "127.0.0.1:x"])  # fmt: skip
def test_another_host_name_that_resolves_to_this_machine_gets_nothing(server: LiveServer, host: str) -> None:
    for path in ("/", f"/?token={server.token}"):
        code, headers, _ = server.ask(path, {"Host": host, "Cookie": server.cookie})
        assert code in (400, 403) and "set-cookie" not in headers


def test_addresses_and_localhost_are_allowed_as_host_names() -> None:
    for host in ("127.0.0.1:1", "localhost", "LOCALHOST:80", "[::1]:8000", "192.168.1.5"):
        assert is_allowed_host(host, ())
    assert is_allowed_host("box:8443", ("box",)) and not is_allowed_host("box:8443", ())


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1"])
def test_another_site_cannot_ask_for_anything(server: LiveServer, origin: str) -> None:
    assert server.get("/", Origin=origin)[0] == 403
    code, _ = server.post("/agents/x/actions", {"kind": "stop"}, Origin=origin)
    assert code == 403


def test_a_page_of_another_port_of_this_machine_cannot_load_anything(server: LiveServer) -> None:
    for site in ("same-site", "cross-site"):
        for mode in ("no-cors", "cors"):
            headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
            assert server.get("/events", **headers)[0] == 403
    assert server.get("/", **{"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate"})[0] == 200


def test_a_change_needs_the_token_in_a_header(mngr: MngrProgram, server: LiveServer) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    path = f"/agents/{mngr.get_agent('foo')['id']}/actions"
    for token in ("", "x", server.cookie.partition("=")[2]):
        assert server.post(path, {"kind": "stop"}, **{"X-Mngr-Token": token})[0] == 403
    for site in ("cross-site", "same-site", "none"):
        assert server.post(path, {"kind": "stop"}, **{"Sec-Fetch-Site": site})[0] == 403
    assert server.ask(path, {"X-Mngr-Token": server.token}, method="POST", body=b'{"kind": "stop"}')[0] == 401
    assert mngr.get_agent("foo")["state"] == "RUNNING"
    origin = server.base
    code, answer = server.post(path, {"kind": "stop"}, Origin=origin, **{"Sec-Fetch-Site": "same-origin"})
    assert (code, answer["text"]) == (200, "stopped foo")
    assert mngr.get_agent("foo")["state"] == "STOPPED"


def test_a_read_only_page_changes_nothing(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    agent = mngr.get_agent("foo")["id"]
    with LiveServer(mngr, "--read-only") as server:
        code, answer = server.post(f"/agents/{agent}/actions", {"kind": "stop"})
        assert code == 403 and "--read-only" in answer["text"]
        assert "<textarea" not in server.get(f"/agents/{agent}")[2]
    assert mngr.get_agent("foo")["state"] == "RUNNING"


def test_other_methods_and_bodies_are_rejected(server: LiveServer) -> None:
    headers = {"Cookie": server.cookie, "X-Mngr-Token": server.token}
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH"):
        assert server.ask("/agents/x/actions", headers, method=method)[0] == 405
    for body in (
        b"",
        b"[",
        b"[]",
        b"[" * 100_000,
        b'{"kind": "destroy"}',
        b'{"kind": 7}',
        b'{"kind": "message", "text": "' + b"x" * 300_000 + b'"}',
    ):
        assert server.ask("/agents/x/actions", headers, method="POST", body=body)[0] == 400
    assert server.post("/agents/x/actions", {"kind": "message", "text": " "})[0] == 400


def test_pages_run_and_load_only_files_of_the_server(server: LiveServer) -> None:
    (server.mngr.repo / ".mngr" / "e2e").mkdir(parents=True)
    for path in ("/", "/agents/x", "/runs", "/nothing", "/tests/"):
        _, headers, text = server.get(path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe-inline" not in policy
        assert not INLINE.search(text), path
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/static/../site.py", "/static/%2e%2e/site.py", "/static/..%2fsite.py", "/static/", "/runs/..%2f..%2fx", "/runs/x/report/../../run.json", "/agents/..%2f..%2fetc", "/tests/../../etc/passwd", "/tests/%2e%2e/", "//evil.example/%2e%2e"])  # fmt: skip
def test_no_path_leaves_its_directory(server: LiveServer, path: str) -> None:
    code, headers, text = server.get(path)
    assert code in (200, 301, 404) and "root:" not in text and "import" not in text
    assert headers.get("location", "/").startswith(("/", server.base)) and "//evil" not in headers.get("location", "")


def test_an_agent_that_does_not_exist_cannot_be_acted_on(server: LiveServer) -> None:
    code, answer = server.post("/agents/--all/actions", {"kind": "stop"})
    assert code == 200 and not answer["ok"]


def test_only_the_user_can_read_the_saved_token(mngr: MngrProgram, server: LiveServer) -> None:
    path = mngr.home / "web" / "access.json"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600 and stat.S_IMODE(os.stat(path.parent).st_mode) == 0o700
    assert server.token in path.read_text()


def test_a_token_of_last_week_is_replaced(mngr: MngrProgram) -> None:
    with LiveServer(mngr) as server:
        first = server.token, server.port
    with LiveServer(mngr) as server:
        assert (server.token, server.port) == first
    os.utime(mngr.home / "web" / "access.json", (1, 1))
    with LiveServer(mngr) as server:
        assert server.token != first[0]


def test_other_addresses_need_tls_or_an_explicit_decision(mngr: MngrProgram) -> None:
    refused = mngr("web", "--listen", "0.0.0.0:0", code=2)
    assert "other machines could read and control your agents through 0.0.0.0" in refused.err
    for words, problem in (
        (["--listen", "0.0.0.0"], "is not ADDRESS:PORT"),
        (["--listen", "0.0.0.0:99999"], "is not ADDRESS:PORT"),
        (["--listen", "127.0.0.1:0", "--port", "1"], "cannot be combined"),
        (["--tls-cert", "x"], "work only together"),
        (["--tls-cert", "x", "--tls-key", "y"], "there is no file"),
    ):
        assert problem in mngr("web", *words, code=2).err
    with LiveServer(mngr, "--listen", "0.0.0.0:0", "--insecure") as server:
        assert server.get("/")[0] == 200
        assert server.get("/", Host="evil.example")[0] == 403


def test_tls_encrypts_the_page_and_marks_the_cookie(mngr: MngrProgram) -> None:
    import http.client
    import ssl
    import subprocess

    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
         "-subj", "/CN=localhost", "-keyout", "key.pem", "-out", "cert.pem"], cwd=mngr.repo, check=True, capture_output=True,
    )  # fmt: skip
    words = ["--listen", "0.0.0.0:0", "--tls-cert", "cert.pem", "--tls-key", "key.pem"]
    with LiveServer(mngr, *words) as server:
        assert server.url.startswith("https://")
        context = ssl.create_default_context(cafile=str(mngr.repo / "cert.pem"))
        connection = http.client.HTTPSConnection("localhost", server.port, context=context, timeout=10)
        connection.request("GET", f"/?token={server.token}")
        response = connection.getresponse()
        assert response.status == 303 and "Secure" in str(response.getheader("set-cookie"))
        connection.close()
