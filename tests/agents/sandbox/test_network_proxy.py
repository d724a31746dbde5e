"""Tests how the sandbox's proxy parses and filters requests."""

from __future__ import annotations

import pytest

from mngr.agents.sandbox import network_proxy


def join_head(*lines: str) -> bytes:
    return "\r\n".join(lines).encode("latin-1")


def test_connect_requests_name_their_destination() -> None:
    assert network_proxy.parse_request(join_head("CONNECT API.example.com:8443 HTTP/1.1", "Host: other")) == (
        "api.example.com",
        8443,
        None,
    )
    assert network_proxy.parse_request(join_head("CONNECT example.com. HTTP/1.1")) == ("example.com", 443, None)
    assert network_proxy.parse_request(join_head("CONNECT [::1]:80 HTTP/1.1")) == ("[::1]", 80, None)


def test_a_plain_request_is_rewritten_for_its_destination() -> None:
    """The Host header is the host that was checked, and the connection serves one request."""
    lines = ("GET http://example.com:8080/a?b=c HTTP/1.1", "Host: evil.example", "Accept: */*")
    proxy_headers = ("Proxy-Connection: keep-alive", "Proxy-Authorization: x", "Connection: keep-alive")
    host, port, request = network_proxy.parse_request(join_head(*lines, *proxy_headers))
    assert (host, port) == ("example.com", 8080)
    assert request == (b"GET /a?b=c HTTP/1.1\r\nHost: example.com:8080\r\nConnection: close\r\nAccept: */*\r\n\r\n")
    assert network_proxy.parse_request(join_head("GET http://example.com?x HTTP/1.0"))[2] == (
        b"GET /?x HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n"
    )


@pytest.mark.parametrize(
    "line",
    [
        "GET /path HTTP/1.1",
        "GET https://example.com/ HTTP/1.1",
        "GET http://user@example.com/ HTTP/1.1",
        "CONNECT example.com:0 HTTP/1.1",
        "CONNECT example.com:99999 HTTP/1.1",
        "CONNECT a:b:c HTTP/1.1",
        "CONNECT user@example.com:443 HTTP/1.1",
        "CONNECT example.com:443",
        "CONNECT  HTTP/1.1",
        "nonsense",
        "",
    ],
)
def test_invalid_proxy_requests_are_rejected(line: str) -> None:
    with pytest.raises(network_proxy.ProxyRefusal) as refused:
        network_proxy.parse_request(join_head(line))
    assert refused.value.args[0].startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("line", [" folded: x", "a: b\nHost: evil", ""])
def test_a_header_that_hides_lines_is_rejected(line: str) -> None:
    with pytest.raises(network_proxy.ProxyRefusal):
        network_proxy.parse_request(join_head("GET http://example.com/ HTTP/1.1", line))


def test_only_listed_destinations_are_allowed() -> None:
    proxy = network_proxy.AllowListProxy("/nowhere", frozenset({"example.com:443", "any.example:*", "[::1]:80"}))
    assert (
        proxy.is_allowed("example.com", 443) and proxy.is_allowed("any.example", 22) and proxy.is_allowed("[::1]", 80)
    )
    for host, port in (("example.com", 80), ("www.example.com", 443), ("example.com.evil", 443), ("*", 443)):
        assert not proxy.is_allowed(host, port)
