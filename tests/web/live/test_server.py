"""Tests where the server listens, and what it keeps for the next server."""

from __future__ import annotations

import pytest

from mngr.base.errors import UsageError
from mngr.web.live.server import ServerOptions, build_url, parse_address
from tests.conftest import MngrProgram
from tests.support.live_page import LiveServer


def test_a_second_server_takes_another_port_and_has_the_same_token(mngr: MngrProgram) -> None:
    with LiveServer(mngr) as first, LiveServer(mngr) as second:
        assert first.port != second.port and first.token == second.token
        assert first.get("/")[0] == second.get("/")[0] == 200


def test_a_port_that_is_in_use_is_an_error(mngr: MngrProgram) -> None:
    with LiveServer(mngr) as server:
        failed = mngr("web", "--port", str(server.port), code=1)
        assert f"cannot listen on 127.0.0.1, port {server.port}: Address already in use" in failed.err


@pytest.mark.parametrize("text", ["", "{}", "[" * 10_000, '{"token": "short", "port": 1}', '{"token": 7, "port": "x"}'])
def test_a_damaged_file_with_the_token_is_replaced(mngr: MngrProgram, text: str) -> None:
    with LiveServer(mngr):
        pass
    (mngr.home / "web" / "access.json").write_text(text)
    with LiveServer(mngr) as server:
        assert len(server.token) > 40 and server.get("/")[0] == 200


def test_addresses_are_read_with_their_port() -> None:
    assert parse_address("192.168.1.5:8443") == ("192.168.1.5", 8443)
    assert parse_address("[::1]:80") == ("::1", 80)
    for text in ("", ":80", "x:", "x:y", "x:70000", "x"):
        with pytest.raises(UsageError):
            parse_address(text)


@pytest.mark.parametrize(
    ("address", "is_loopback"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("10.0.0.1", False), ("box", False)],
)
def test_only_loopback_addresses_need_no_tls(address: str, is_loopback: bool) -> None:
    assert ServerOptions(address=address).is_loopback is is_loopback


def test_the_url_has_the_scheme_and_brackets_around_an_ipv6_address() -> None:
    assert build_url(ServerOptions(), 80, "t") == "http://127.0.0.1:80/?token=t"
    tls = ServerOptions(address="::1", tls_cert="c", tls_key="k")
    assert build_url(tls, 8443, "t") == "https://[::1]:8443/?token=t"
